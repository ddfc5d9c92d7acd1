#include "agent/fs_matcher.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "agent/fs_literal.hpp"
#include "agent/fs_utf8.hpp"

namespace daiv::agent {
namespace {

constexpr std::size_t npos = std::string_view::npos;

// Steps of one match. What a line may cost is some 10 ms; a text of many lines is cut into lines
// where it costs more.
constexpr std::uint32_t match_limit = 1'000'000;
constexpr std::uint32_t heap_limit_kib = 16U << 10;
constexpr std::size_t jit_stack_start = 32U << 10;
constexpr std::size_t jit_stack_max = 4U << 20;
// Matching all ways at once needs no backtracking, but its time may grow with the fourth power of
// the line (pcre2matching(3); measured: 10 ms for "(a+)+$" on 100 characters).
constexpr std::size_t max_dfa_line = 128;
constexpr std::size_t dfa_workspace = 100'000;
// So many lines in one search may meet the limit; some 20 ms each.
constexpr int max_hard_lines = 200;
constexpr std::size_t max_pattern_bytes = 64U << 10;
// Private-use characters that stand for bytes that are no UTF-8 while a line is matched.
constexpr std::uint32_t lone_byte_base = 0x10FE00;

template <auto free_function>
struct Free {
  template <typename T>
  void operator()(T* pointer) const noexcept {
    free_function(pointer);
  }
};

std::size_t line_begin(std::string_view text, std::size_t at) {
  const std::size_t before = at == 0 ? npos : text.rfind('\n', at - 1);
  return before == npos ? 0 : before + 1;
}

std::size_t line_end(std::string_view text, std::size_t at) {
  return std::min(text.find('\n', at), text.size());
}

// The line with each byte that is no UTF-8 replaced by a character of its own, that is no letter,
// digit or space.
void make_valid(std::string_view line, std::string& out) {
  out.clear();
  while (!line.empty()) {
    const std::size_t valid = valid_utf8_prefix(line);
    out += line.substr(0, valid);
    line.remove_prefix(valid);
    if (line.empty()) return;
    append_utf8(out, lone_byte_base + static_cast<unsigned char>(line.front()));
    line.remove_prefix(1);
  }
}

}  // namespace

struct CompiledPattern::Code {
  std::unique_ptr<pcre2_code, Free<pcre2_code_free>> code;
  std::optional<LiteralFinder> literal;
  bool is_literal = false;
  bool has_back_reference = false;

  [[nodiscard]] std::size_t find_literal(std::string_view text, std::size_t from) const {
    return literal->find(text, from);
  }
};

CompiledPattern::CompiledPattern(std::unique_ptr<Code> code) noexcept : code_(std::move(code)) {}
CompiledPattern::CompiledPattern(CompiledPattern&&) noexcept = default;
CompiledPattern::~CompiledPattern() = default;

std::optional<CompiledPattern> CompiledPattern::compile(std::string_view pattern) {
  if (pattern.size() > max_pattern_bytes) return std::nullopt;
  std::optional<TranslatedPattern> translated = translate_pattern(pattern);
  if (!translated) return std::nullopt;
  const std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_bsr(context.get(), PCRE2_BSR_ANYCRLF);
  int error = 0;
  PCRE2_SIZE where = 0;
  auto code = std::make_unique<Code>();
  code->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated->pcre.data()), translated->pcre.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX | PCRE2_NEVER_BACKSLASH_C,
      &error, &where, context.get()));
  if (!code->code) return std::nullopt;
  // Where the sandbox's rules forbid writable code, the interpreter does the same more slowly.
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);
  if (!translated->literal.empty()) code->literal.emplace(std::move(translated->literal));
  code->is_literal = translated->is_literal;
  code->has_back_reference = translated->has_back_reference;
  return CompiledPattern(std::move(code));
}

// What one thread needs to match.
struct LineMatcher::Scratch {
  explicit Scratch(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(jit_stack_start, jit_stack_max, nullptr)) {
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), match_limit);
    pcre2_set_heap_limit(context.get(), heap_limit_kib);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }

  std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> data;
  std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context;
  std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> stack;
  std::vector<int> workspace;  // for pcre2_dfa_match(3), once it is needed
  int hard_lines = 0;
  std::string valid_line;
};

LineMatcher::LineMatcher(const CompiledPattern& pattern)
    : code_(pattern.code()), scratch_(std::make_unique<Scratch>(code_.code.get())) {}
LineMatcher::~LineMatcher() = default;

Found LineMatcher::find(std::string_view text, std::size_t from, Line& line) {
  if (from > text.size()) return Found::nothing;
  if (code_.literal) return find_with_literal(text, from, line);
  if (valid_utf8_prefix(text.substr(from)) != text.size() - from) {
    return find_line_by_line(text, from, line);
  }
  const int result =
      pcre2_match(code_.code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                  PCRE2_NO_UTF_CHECK, scratch_->data.get(), scratch_->context.get());
  if (result == PCRE2_ERROR_NOMATCH) return Found::nothing;
  // A limit was met: it may still do for each line alone.
  if (result < 0) return find_line_by_line(text, from, line);
  const std::size_t at = pcre2_get_ovector_pointer(scratch_->data.get())[0];
  line = {line_begin(text, at), line_end(text, at)};
  return Found::line;
}

Found LineMatcher::find_with_literal(std::string_view text, std::size_t from, Line& line) {
  while (from <= text.size()) {
    const std::size_t at = code_.find_literal(text, from);
    if (at == npos) return Found::nothing;
    line = {line_begin(text, at), line_end(text, at)};
    if (code_.is_literal) return Found::line;
    const Found found = match_line(text.substr(line.begin, line.end - line.begin));
    if (found != Found::nothing) return found;
    from = line.end + 1;
  }
  return Found::nothing;
}

Found LineMatcher::find_line_by_line(std::string_view text, std::size_t from, Line& line) {
  while (from <= text.size()) {
    line = {from, line_end(text, from)};
    const Found found = match_line(text.substr(line.begin, line.end - line.begin));
    if (found != Found::nothing) return found;
    from = line.end + 1;
  }
  return Found::nothing;
}

Found LineMatcher::match_line(std::string_view line) {
  if (valid_utf8_prefix(line) != line.size()) {
    make_valid(line, scratch_->valid_line);
    line = scratch_->valid_line;
  }
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(line.data());
  int result = pcre2_match(code_.code.get(), subject, line.size(), 0, PCRE2_NO_UTF_CHECK,
                           scratch_->data.get(), scratch_->context.get());
  if (result < 0 && result != PCRE2_ERROR_NOMATCH) result = match_hard_line(line);
  if (result == PCRE2_ERROR_NOMATCH) return Found::nothing;
  return result < 0 ? Found::too_complex : Found::line;
}

// A line on which backtracking met its limit ("(a+)+$" on a row of "a" and a "b"). Returns what
// PCRE2 does.
int LineMatcher::match_hard_line(std::string_view line) {
  if (code_.has_back_reference || line.size() > max_dfa_line) return PCRE2_ERROR_MATCHLIMIT;
  if (++scratch_->hard_lines > max_hard_lines) return PCRE2_ERROR_MATCHLIMIT;
  scratch_->workspace.resize(dfa_workspace);
  const int result = pcre2_dfa_match(code_.code.get(), reinterpret_cast<PCRE2_SPTR>(line.data()),
                                     line.size(), 0, PCRE2_NO_UTF_CHECK | PCRE2_DFA_SHORTEST,
                                     scratch_->data.get(), scratch_->context.get(),
                                     scratch_->workspace.data(), scratch_->workspace.size());
  return result == 0 ? 1 : result;  // 0 is a match for which the ovector is too short
}

}  // namespace daiv::agent
