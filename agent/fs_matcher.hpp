#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/fs_pattern.hpp"

// Finds lines that match a pattern, in text of any kind. PCRE2 stays behind this header.
namespace daiv::agent {

// A compiled pattern; shared by threads, each with a LineMatcher of its own.
class CompiledPattern {
public:
  // Nothing where the pattern is meaningless or too large for PCRE2.
  static std::optional<CompiledPattern> compile(std::string_view pattern);

  CompiledPattern(CompiledPattern&&) noexcept;
  CompiledPattern& operator=(CompiledPattern&&) = delete;
  CompiledPattern(const CompiledPattern&) = delete;
  CompiledPattern& operator=(const CompiledPattern&) = delete;
  ~CompiledPattern();

  struct Code;
  [[nodiscard]] const Code& code() const noexcept { return *code_; }

private:
  explicit CompiledPattern(std::unique_ptr<Code> code) noexcept;

  std::unique_ptr<Code> code_;
};

// A line within a text, without its LF.
struct Line {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// What a search found. `too_complex`: the pattern would take too long on a line of this text.
enum class Found { line, nothing, too_complex };

class LineMatcher {
public:
  explicit LineMatcher(const CompiledPattern& pattern);
  LineMatcher(const LineMatcher&) = delete;
  LineMatcher& operator=(const LineMatcher&) = delete;
  ~LineMatcher();

  // Finds the first line of `text` at or after `from` (where a line begins) that matches. `text` is
  // whole lines without the last one's LF; bytes that are no UTF-8 are characters that equal
  // nothing but themselves.
  Found find(std::string_view text, std::size_t from, Line& line);

private:
  struct Scratch;

  Found find_with_literal(std::string_view text, std::size_t from, Line& line);
  Found find_line_by_line(std::string_view text, std::size_t from, Line& line);
  Found match_line(std::string_view line);
  int match_hard_line(std::string_view line);

  const CompiledPattern::Code& code_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace daiv::agent
