#include "agent/fs_bracket.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "agent/fs_utf8.hpp"

namespace daiv::agent {
namespace {

// "\s" and [:space:] without LF.
constexpr std::string_view space_members = "\\t\\x{b}\\f\\r\\x{85}\\p{Z}";
constexpr std::string_view control_members = "\\x{0}-\\x{9}\\x{b}-\\x{1f}\\x{7f}-\\x{9f}";

constexpr std::array<std::string_view, 10> plain_classes = {
    "alpha", "digit", "alnum", "upper", "lower", "punct", "print", "graph", "blank", "xdigit"};

class Parser {
public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  std::optional<Bracket> run() {
    const bool negated = at_ < pattern_.size() && pattern_[at_] == '^';
    if (negated) ++at_;
    const std::size_t begin = at_;
    for (;;) {
      if (at_ >= pattern_.size()) return std::nullopt;
      if (pattern_[at_] == ']' && at_ > begin) break;
      if (!take_member()) return std::nullopt;
    }
    // "[:space:]" alone: GNU grep refuses it too, since "[[:space:]]" was meant.
    const std::string_view inside = pattern_.substr(begin, at_ - begin);
    if (inside.size() > 1 && inside.starts_with(':') && inside.ends_with(':')) return std::nullopt;
    return Bracket{finish(negated), at_ + 1};
  }

private:
  [[nodiscard]] std::string finish(bool negated) const {
    if (negated) return "[^" + members_ + "\\n]";
    const std::string set = '[' + members_ + ']';
    return may_hold_line_end_ ? "(?:(?!\\n)" + set + ')' : set;
  }

  bool take_member() {
    if (starts_with("[:")) return take_class();
    if (starts_with("\\") && take_escape()) return true;
    const std::optional<std::uint32_t> low = take_end_point();
    if (!low) return false;
    const bool range =
        at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']';
    if (!range) {
      add(*low);
      return true;
    }
    ++at_;
    if (starts_with("[:")) return false;
    const std::optional<std::uint32_t> high = take_end_point();
    if (!high || *high < *low) return false;
    add(*low);
    members_ += '-';
    add(*high);
    if (*low <= '\n' && *high >= '\n') may_hold_line_end_ = true;
    return true;
  }

  // A character, "[.x.]" or "[=x=]" with one character.
  std::optional<std::uint32_t> take_end_point() {
    for (const std::string_view opening : {"[.", "[="}) {
      if (!starts_with(opening)) continue;
      const std::string closing{opening[1], ']'};
      const std::size_t end = pattern_.find(closing, at_ + 2);
      if (end == std::string_view::npos) return std::nullopt;
      const std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
      const Utf8Character character = decode_utf8(name);
      if (character.length != name.size() || name.empty()) return std::nullopt;
      at_ = end + 2;
      return character.code_point;
    }
    const Utf8Character character = decode_utf8(pattern_.substr(at_));
    // The front sends UTF-8; anything else is no expression.
    if (character.length == 0) return std::nullopt;
    at_ += character.length;
    return character.code_point;
  }

  bool take_class() {
    const std::size_t end = pattern_.find(":]", at_ + 2);
    if (end == std::string_view::npos) return false;
    const std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    at_ = end + 2;
    if (name == "space") {
      members_ += space_members;
    } else if (name == "cntrl") {
      members_ += control_members;
    } else if (std::ranges::find(plain_classes, name) != plain_classes.end()) {
      members_.append("[:").append(name).append(":]");
    } else {
      return false;
    }
    return true;
  }

  // The few escapes that everyone expects to work here; false for all others, whose backslash is a
  // character.
  bool take_escape() {
    if (at_ + 1 >= pattern_.size()) return false;
    const char c = pattern_[at_ + 1];
    switch (c) {
      case 's':
        members_ += space_members;
        break;
      case 'D':
      case 'W':
        may_hold_line_end_ = true;
        [[fallthrough]];
      case 'd':
      case 'w':
      case 'S':
      case 't':
      case 'r':
      case 'f':
        members_ += {'\\', c};
        break;
      case 'v':
        members_ += "\\x{b}";
        break;
      default:
        return false;
    }
    at_ += 2;
    return true;
  }

  void add(std::uint32_t code_point) {
    std::string character;
    append_utf8(character, code_point);
    append_literal(members_, character);
    if (code_point == '\n') may_hold_line_end_ = true;
  }

  [[nodiscard]] bool starts_with(std::string_view text) const {
    return pattern_.substr(at_).starts_with(text);
  }

  std::string_view pattern_;
  std::size_t at_ = 1;  // after the "["
  std::string members_;
  bool may_hold_line_end_ = false;
};

}  // namespace

std::optional<Bracket> translate_bracket(std::string_view pattern) { return Parser(pattern).run(); }

void append_literal(std::string& pcre, std::string_view character) {
  const auto value = static_cast<unsigned char>(character.front());
  const bool plain = value >= 0x80 || (value >= '0' && value <= '9') ||
                     (value >= 'A' && value <= 'Z') || (value >= 'a' && value <= 'z') ||
                     value == '_';
  if (plain) {
    pcre += character;
  } else {
    // By number: NUL and control characters too, in classes and outside (pcre2pattern(3)).
    constexpr std::string_view hex = "0123456789abcdef";
    pcre.append("\\x{") += hex[value >> 4U];
    pcre += hex[value & 0xFU];
    pcre += '}';
  }
}

}  // namespace daiv::agent
