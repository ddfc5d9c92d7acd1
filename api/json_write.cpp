#include "api/json_write.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <type_traits>

namespace daiv::api {
namespace {

// The short escape of a character, or 0.
char short_escape(char c) {
  switch (c) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '\f':
      return 'f';
    case '\b':
      return 'b';
    default:
      return 0;
  }
}

void append_escape(std::string& out, char c) {
  static constexpr std::string_view hex = "0123456789abcdef";
  if (const char letter = short_escape(c); letter != 0) {
    out += '\\';
    out += letter;
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  out += "\\u00";
  out += hex[byte >> 4U];
  out += hex[byte & 0xfU];
}

bool needs_escape(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

void append_object(std::string& out, const Json::Object& members) {
  out += '{';
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i != 0) out += ',';
    append_json_string(out, members[i].name);
    out += ':';
    append_json(out, members[i].value);
  }
  out += '}';
}

void append_array(std::string& out, const Json::Array& items) {
  out += '[';
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += ',';
    append_json(out, items[i]);
  }
  out += ']';
}

// Places the point in `digits` as repr(float) does for exponents from -4 to 15.
void append_fixed(std::string& out, std::string_view digits, int exponent) {
  if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out += digits;
    return;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  out += digits.substr(0, whole);
  if (digits.size() <= whole) {
    out.append(whole - digits.size(), '0');
    out += ".0";
    return;
  }
  out += '.';
  out += digits.substr(whole);
}

void append_scientific(std::string& out, std::string_view digits, int exponent) {
  out += digits[0];
  if (digits.size() > 1) {
    out += '.';
    out += digits.substr(1);
  }
  out += exponent < 0 ? "e-" : "e+";
  const std::string power = std::to_string(std::abs(exponent));
  if (power.size() < 2) out += '0';
  out += power;
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  std::size_t clean = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!needs_escape(text[i])) continue;
    out += text.substr(clean, i - clean);
    append_escape(out, text[i]);
    clean = i + 1;
  }
  out += text.substr(clean);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_json_number(std::string& out, double number) {
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                 std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 2) digits += text.substr(2, e - 2);
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent >= -4 && exponent < 16) {
    append_fixed(out, digits, exponent);
  } else {
    append_scientific(out, digits, exponent);
  }
}

void append_json(std::string& out, const Json& json) {
  std::visit(
      [&out](const auto& value) {
        using Type = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, JsonNull>) {
          out += "null";
        } else if constexpr (std::is_same_v<Type, bool>) {
          out += value ? "true" : "false";
        } else if constexpr (std::is_same_v<Type, JsonInteger>) {
          out += value.digits;
        } else if constexpr (std::is_same_v<Type, double>) {
          append_json_number(out, value);
        } else if constexpr (std::is_same_v<Type, std::string>) {
          append_json_string(out, value);
        } else if constexpr (std::is_same_v<Type, Json::Array>) {
          append_array(out, value);
        } else {
          append_object(out, value);
        }
      },
      json.value());
}

}  // namespace daiv::api
