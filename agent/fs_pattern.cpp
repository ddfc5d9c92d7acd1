#include "agent/fs_pattern.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "agent/fs_bracket.hpp"
#include "agent/fs_utf8.hpp"
#include "wire/ascii.hpp"

namespace daiv::agent {
namespace {

// RE_DUP_MAX of glibc, which GNU grep refuses to pass.
constexpr std::uint32_t max_bound = 32767;
// PCRE2 counts to 65,535 in each bound; deeper nests of repetitions would only cost time to refuse.
constexpr int max_repetitions_of_one_atom = 16;
constexpr std::size_t max_depth = 200;

struct Bound {
  std::uint32_t low = 0;
  std::optional<std::uint32_t> high;
};

class Translator {
public:
  explicit Translator(std::string_view pattern, TranslatedPattern& out, std::size_t groups_before)
      : rest_(pattern), out_(out), first_group_(groups_before), groups_(groups_before) {}

  bool run() {
    while (!rest_.empty()) {
      if (!take_item()) return false;
    }
    end_run();
    return levels_.empty();
  }

  [[nodiscard]] std::size_t groups() const { return groups_; }
  // Text that every match holds.
  [[nodiscard]] std::string literal() const { return alternatives_ ? std::string() : best_run_; }
  [[nodiscard]] bool is_literal() const { return plain_ && !alternatives_; }

private:
  struct Level {
    std::size_t start;  // of the group in the output
    std::size_t group;  // its number, 0 where it does not capture
  };

  bool take_item() {
    const char c = rest_.front();
    switch (c) {
      case '\\':
        return take_escape();
      case '[':
        return take_bracket();
      case '(':
        return take_group();
      case ')':
        return end_group();
      case '|':
        return take_alternative();
      case '*':
        return take_repetition({0, {}});
      case '+':
        return take_repetition({1, {}});
      case '?':
        return take_repetition({0, 1});
      case '{':
        return take_bound();
      case '^':
        return take_assertion(1, "^");
      case '$':
        return take_assertion(1, "$");
      case '.':
        return take_class(1, ".");
      default:
        break;
    }
    return take_character();
  }

  // ---- atoms

  void begin_atom() {
    if (repetitions_ > 0) end_run();
    atom_start_ = out_.pcre.size();
    repeatable_ = true;
    repetitions_ = 0;
  }

  bool take_character() {
    const std::size_t length = std::max<std::size_t>(decode_utf8(rest_).length, 1);
    literal(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return true;
  }

  void literal(std::string_view character) {
    begin_atom();
    append_literal(out_.pcre, character);
    if (levels_.empty()) {
      run_ += character;
      last_character_ = character.size();
    }
  }

  bool take_class(std::size_t length, std::string_view pcre) {
    begin_atom();
    out_.pcre += pcre;
    rest_.remove_prefix(length);
    end_run();
    plain_ = false;
    return true;
  }

  // Takes no text, and leaves nothing to repeat.
  bool take_assertion(std::size_t length, std::string_view pcre) {
    out_.pcre += pcre;
    rest_.remove_prefix(length);
    repeatable_ = false;
    last_character_ = 0;
    plain_ = false;
    return true;
  }

  bool take_escape() {
    if (rest_.size() < 2) return false;
    const char c = rest_[1];
    switch (c) {
      case 'w':
      case 'd':
      case 'S':
        return take_class(2, rest_.substr(0, 2));
      case 'W':
        return take_class(2, "[^\\w\\n]");
      case 'D':
        return take_class(2, "[^\\d\\n]");
      case 's':
        return take_class(2, "[^\\S\\n]");
      case 'n':
        return take_class(2, "(?!)");
      case 'b':
        return take_assertion(2, "\\b");
      case 'B':
        return take_assertion(2, "\\B");
      case '<':
        return take_assertion(2, "\\b(?=\\w)");
      case '>':
        return take_assertion(2, "\\b(?<=\\w)");
      case '`':
        return take_assertion(2, "^");
      case '\'':
        return take_assertion(2, "$");
      case 't':
        return take_control('\t');
      case 'r':
        return take_control('\r');
      case 'f':
        return take_control('\f');
      case 'v':
        return take_control('\v');
      default:
        break;
    }
    if (c >= '1' && c <= '9') return take_back_reference(static_cast<std::size_t>(c - '0'));
    rest_.remove_prefix(1);
    return take_character();
  }

  bool take_control(char c) {
    rest_.remove_prefix(2);
    literal({&c, 1});
    return true;
  }

  bool take_back_reference(std::size_t number) {
    const std::size_t group = first_group_ + number;
    if (std::ranges::find(ended_groups_, group) == ended_groups_.end()) return false;
    out_.has_back_reference = true;
    return take_class(2, "\\g{" + std::to_string(group) + "}");
  }

  bool take_bracket() {
    const std::optional<Bracket> bracket = translate_bracket(rest_);
    return bracket && take_class(bracket->length, bracket->pcre);
  }

  // ---- groups

  bool take_group() {
    end_run();
    plain_ = false;
    if (levels_.size() == max_depth) return false;
    Level level{out_.pcre.size(), 0};
    if (rest_.starts_with("(?")) {
      const std::size_t end = rest_.find_first_not_of("ims-", 2);
      const bool fits = end != std::string_view::npos && (rest_[end] == ':' || rest_[end] == ')');
      if (!fits || !take_flags(rest_.substr(2, end - 2), rest_[end])) return false;
      const bool opens = rest_[end] == ':';
      rest_.remove_prefix(end + 1);
      repeatable_ = false;
      if (opens) levels_.push_back(level);
      return true;
    }
    level.group = ++groups_;
    out_.pcre += '(';
    rest_.remove_prefix(1);
    repeatable_ = false;
    levels_.push_back(level);
    return true;
  }

  // Only "i" has a meaning on single lines; "m" and "s" are taken and dropped.
  bool take_flags(std::string_view flags, char closing) {
    const std::size_t minus = flags.find('-');
    const std::string_view off = minus == std::string_view::npos ? "" : flags.substr(minus + 1);
    if (off.contains('-') || (closing == ')' && flags.empty())) return false;
    out_.pcre += "(?";
    if (off.contains('i')) {
      out_.pcre += "-i";
    } else if (flags.contains('i')) {
      out_.pcre += 'i';
    }
    out_.pcre += closing;
    // What follows may match in another case: no text of it is certain.
    if (flags.contains('i')) alternatives_ = true;
    return true;
  }

  bool end_group() {
    if (levels_.empty()) return take_character();
    const Level level = levels_.back();
    levels_.pop_back();
    if (level.group != 0) ended_groups_.push_back(level.group);
    out_.pcre += ')';
    rest_.remove_prefix(1);
    atom_start_ = level.start;
    repeatable_ = true;
    repetitions_ = 0;
    end_run();
    return true;
  }

  bool take_alternative() {
    out_.pcre += '|';
    rest_.remove_prefix(1);
    repeatable_ = false;
    end_run();
    plain_ = false;
    if (levels_.empty()) alternatives_ = true;
    return true;
  }

  // ---- repetitions

  bool take_bound() {
    std::size_t at = 1;
    const auto number = [&]() -> std::optional<std::uint32_t> {
      const std::size_t begin = at;
      std::uint32_t value = 0;
      for (; at < rest_.size() && wire::is_digit(rest_[at]); ++at) {
        value = std::min<std::uint32_t>(value * 10 + static_cast<std::uint32_t>(rest_[at] - '0'),
                                        max_bound + 1);
      }
      return at == begin ? std::nullopt : std::optional(value);
    };
    const std::optional<std::uint32_t> low = number();
    Bound bound{low.value_or(0), low};
    const bool comma = at < rest_.size() && rest_[at] == ',';
    if (comma) {
      ++at;
      bound.high = number();
    }
    // Not a bound: the brace means itself.
    if (at >= rest_.size() || rest_[at] != '}' || (!low && !comma)) return take_character();
    if (bound.low > max_bound || bound.high.value_or(bound.low) > max_bound) return false;
    if (bound.high && *bound.high < bound.low) return false;
    rest_.remove_prefix(at);
    return take_repetition(bound);
  }

  // Consumes one byte, the last of the operator.
  bool take_repetition(const Bound& bound) {
    if (!repeatable_ || repetitions_ == max_repetitions_of_one_atom) return false;
    // "a+?" is an optional "a+" here, not a lazy one.
    if (repetitions_++ > 0) {
      out_.pcre.insert(atom_start_, "(?:");
      out_.pcre += ')';
    }
    out_.pcre += '{' + std::to_string(bound.low) + ',';
    if (bound.high) out_.pcre += std::to_string(*bound.high);
    out_.pcre += '}';
    rest_.remove_prefix(1);
    plain_ = false;
    // The last character is part of every match only where it must come at least once. The run ends
    // with the next atom, as one more repetition ("a+?") may still make it optional.
    if (levels_.empty() && bound.low == 0) {
      run_.resize(run_.size() - last_character_);
      last_character_ = 0;
    }
    return true;
  }

  void end_run() {
    if (run_.size() > best_run_.size()) best_run_ = run_;
    run_.clear();
    last_character_ = 0;
  }

  std::string_view rest_;
  TranslatedPattern& out_;
  std::size_t first_group_;
  std::size_t groups_;
  std::vector<std::size_t> ended_groups_;
  std::vector<Level> levels_;
  std::size_t atom_start_ = 0;
  bool repeatable_ = false;
  int repetitions_ = 0;
  std::string run_;                 // characters in a row that every match holds, up to here
  std::size_t last_character_ = 0;  // bytes of the last of them
  std::string best_run_;
  bool plain_ = true;
  bool alternatives_ = false;
};

}  // namespace

std::optional<TranslatedPattern> translate_pattern(std::string_view pattern) {
  TranslatedPattern out;
  std::size_t groups = 0;
  const bool one_line = !pattern.contains('\n');
  for (;;) {
    const std::size_t end = pattern.find('\n');
    out.pcre += "(?:";
    Translator translator(pattern.substr(0, end), out, groups);
    if (!translator.run()) return std::nullopt;
    out.pcre += ')';
    groups = translator.groups();
    if (one_line) {
      out.literal = translator.literal();
      out.is_literal = translator.is_literal() && !out.literal.empty();
    }
    if (end == std::string_view::npos) return out;
    out.pcre += '|';
    pattern.remove_prefix(end + 1);
  }
}

}  // namespace daiv::agent
