#include "api/json_decode.hpp"

#include <charconv>
#include <unordered_map>
#include <utility>

#include "api/json_text.hpp"
#include "api/utf8.hpp"
#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

// A syntax fault at a byte of the text; decode_json turns the offset into characters.
struct Refused {
  std::size_t offset;
  std::string reason;
  JsonFault::Kind kind = JsonFault::Kind::syntax;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_high_surrogate(char32_t c) { return c >= 0xd800 && c < 0xdc00; }
bool is_low_surrogate(char32_t c) { return c >= 0xdc00 && c < 0xe000; }

// Later members of the same name replace the value of the first, which keeps its place, as in a
// dict.
void keep_last(Json::Object& members) {
  std::unordered_map<std::string_view, std::size_t> places;
  places.reserve(members.size());
  bool repeated = false;
  for (std::size_t i = 0; i < members.size() && !repeated; ++i)
    repeated = !places.emplace(members[i].name, i).second;
  if (!repeated) return;
  std::unordered_map<std::string, std::size_t> seen;
  Json::Object kept;
  for (JsonMember& member : members) {
    const auto [place, fresh] = seen.emplace(member.name, kept.size());
    if (fresh) {
      kept.push_back(std::move(member));
    } else {
      kept[place->second].value = std::move(member.value);
    }
  }
  members = std::move(kept);
}

// A recursive descent over valid UTF-8 that finds its faults in the order and at the places where
// CPython's scanner (Modules/_json.c) does. Throws Refused; depth is bounded by max_json_depth.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Json document() {
    skip_space();
    Json value = scan_value(0);
    skip_space();
    if (at_ != text_.size()) throw Refused{at_, "Extra data"};
    return value;
  }

private:
  [[nodiscard]] bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  Json scan_value(std::size_t depth) {
    if (at_ >= text_.size()) throw Refused{at_, "Expecting value"};
    if (++values_ > max_json_values) throw Refused{at_, "Too many values"};
    switch (text_[at_]) {
      case '"':
        ++at_;
        return Json(Json::Value(scan_string()));
      case '{':
        return scan_object(depth + 1);
      case '[':
        return scan_array(depth + 1);
      case 'n':
        return scan_word("null", Json());
      case 't':
        return scan_word("true", Json(Json::Value(true)));
      case 'f':
        return scan_word("false", Json(Json::Value(false)));
      default:
        return scan_number();
    }
  }

  Json scan_word(std::string_view word, Json value) {
    if (!text_.substr(at_).starts_with(word)) throw Refused{at_, "Expecting value"};
    at_ += word.size();
    return value;
  }

  void enter(std::size_t depth) const {
    if (depth > max_json_depth) throw Refused{at_, "Nesting too deep"};
  }

  Json scan_object(std::size_t depth) {
    enter(depth);
    ++at_;
    Json::Object members;
    skip_space();
    if (next_is('}')) return close(std::move(members));
    for (;;) {
      if (!next_is('"')) throw Refused{at_, "Expecting property name enclosed in double quotes"};
      ++at_;
      std::string name = scan_string();
      skip_space();
      if (!next_is(':')) throw Refused{at_, "Expecting ':' delimiter"};
      ++at_;
      skip_space();
      Json value = scan_value(depth);
      members.push_back({std::move(name), std::move(value)});
      skip_space();
      if (next_is('}')) return close(std::move(members));
      pass_comma('}', "Illegal trailing comma before end of object");
    }
  }

  Json close(Json::Object members) {
    ++at_;
    keep_last(members);
    return Json(Json::Value(std::move(members)));
  }

  Json scan_array(std::size_t depth) {
    enter(depth);
    ++at_;
    Json::Array items;
    skip_space();
    while (!next_is(']')) {
      items.push_back(scan_value(depth));
      skip_space();
      if (next_is(']')) break;
      pass_comma(']', "Illegal trailing comma before end of array");
    }
    ++at_;
    return Json(Json::Value(std::move(items)));
  }

  void pass_comma(char closing, const char* trailing) {
    if (!next_is(',')) throw Refused{at_, "Expecting ',' delimiter"};
    const std::size_t comma = at_++;
    skip_space();
    if (next_is(closing)) throw Refused{comma, trailing};
  }

  // The rest of a string whose opening quote was just passed.
  std::string scan_string() {
    const std::size_t quote = at_ - 1;
    std::string out;
    for (;;) {
      const std::size_t clean = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      out += text_.substr(clean, at_ - clean);
      if (at_ == text_.size()) throw Refused{quote, "Unterminated string starting at"};
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (c != '\\') throw Refused{at_, "Invalid control character at"};
      scan_escape(quote, out);
    }
  }

  void scan_escape(std::size_t quote, std::string& out) {
    const std::size_t backslash = at_++;
    if (at_ == text_.size()) throw Refused{quote, "Unterminated string starting at"};
    const char letter = text_[at_++];
    if (letter == 'u') {
      append_utf8(out, scan_unicode_escape(backslash));
      return;
    }
    static constexpr std::string_view letters = "\"\\/bfnrt";
    static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    const std::size_t which = letters.find(letter);
    if (which == std::string_view::npos) throw Refused{backslash, "Invalid \\escape"};
    out += meanings[which];
  }

  char32_t scan_unicode_escape(std::size_t backslash) {
    // CPython wants one more character behind the four digits before it looks at them.
    if (!has_characters(5)) throw Refused{at_ - 1, "Invalid \\uXXXX escape"};
    const char32_t first = scan_hex(at_ - 1);
    if (is_low_surrogate(first)) throw Refused{backslash, "Lone surrogate"};
    if (!is_high_surrogate(first)) return first;
    if (!text_.substr(at_).starts_with("\\u") || !has_characters(7))
      throw Refused{backslash, "Lone surrogate"};
    at_ += 2;
    const char32_t second = scan_hex(at_ - 1);
    if (!is_low_surrogate(second)) throw Refused{backslash, "Lone surrogate"};
    return 0x10000 + ((first - 0xd800) << 10U) + (second - 0xdc00);
  }

  char32_t scan_hex(std::size_t letter) {
    char32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = wire::hex_value(text_[at_]);
      if (digit < 0) throw Refused{letter, "Invalid \\uXXXX escape"};
      value = (value << 4U) | static_cast<char32_t>(digit);
      ++at_;
    }
    return value;
  }

  [[nodiscard]] bool has_characters(std::size_t count) const {
    std::size_t at = at_;
    for (; count > 0; --count) {
      if (at >= text_.size()) return false;
      at += scan_utf8(text_.substr(at)).length;
    }
    return true;
  }

  void skip_digits() {
    while (at_ < text_.size() && wire::is_digit(text_[at_])) ++at_;
  }

  [[nodiscard]] bool digit_at(std::size_t at) const {
    return at < text_.size() && wire::is_digit(text_[at]);
  }

  Json scan_number() {
    const std::size_t start = at_;
    std::size_t first = at_;
    if (next_is('-')) ++first;
    if (!digit_at(first)) throw Refused{start, "Expecting value"};
    at_ = first + 1;
    if (text_[first] != '0') skip_digits();
    const bool real = scan_fraction_and_exponent();
    const std::string_view token = text_.substr(start, at_ - start);
    return real ? real_number(token, start) : whole_number(token, start);
  }

  bool scan_fraction_and_exponent() {
    bool real = false;
    if (next_is('.') && digit_at(at_ + 1)) {
      real = true;
      ++at_;
      skip_digits();
    }
    if (!next_is('e') && !next_is('E')) return real;
    std::size_t digits = at_ + 1;
    if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
    if (!digit_at(digits)) return real;
    at_ = digits;
    skip_digits();
    return true;
  }

  static Json whole_number(std::string_view token, std::size_t start) {
    if (token.size() > max_integer_digits + (token.starts_with('-') ? 1 : 0))
      throw Refused{start, "too many digits", JsonFault::Kind::unreadable};
    if (token == "-0") token = "0";
    return Json(Json::Value(JsonInteger{std::string(token)}));
  }

  static Json real_number(std::string_view token, std::size_t start) {
    double value = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error == std::errc() && end == token.data() + token.size()) return Json(Json::Value(value));
    // from_chars says the same of an overflow and of an underflow; Python reads the latter as 0.0.
    // A number is small where its exponent is negative or where it has none, since then its digits
    // would have to exceed 308 places.
    if (is_tiny(token)) return Json(Json::Value(token.starts_with('-') ? -0.0 : 0.0));
    throw Refused{start, "Number out of range"};
  }

  static bool is_tiny(std::string_view token) {
    const std::size_t e = token.find_first_of("eE");
    if (token.starts_with('-')) token.remove_prefix(1);
    const std::string_view mantissa = token.substr(0, token.find_first_of("eE"));
    if (mantissa.find_first_not_of("0.") == std::string_view::npos) return true;
    return e == std::string_view::npos ? token.starts_with('0')
                                       : token[token.find_first_of("eE") + 1] == '-';
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

std::expected<Json, JsonFault> decode_json(std::string_view body) {
  std::string storage;
  const std::optional<std::string_view> text = json_text(body, storage);
  if (!text) return std::unexpected(JsonFault{JsonFault::Kind::unreadable, 0, "not a text"});
  try {
    return Scanner(*text).document();
  } catch (Refused& refused) {
    const std::size_t position = count_characters(text->substr(0, refused.offset));
    return std::unexpected(JsonFault{refused.kind, position, std::move(refused.reason)});
  }
}

}  // namespace daiv::api
