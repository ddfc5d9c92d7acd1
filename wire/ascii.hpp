#pragma once

#include <algorithm>
#include <string>
#include <string_view>

// Characters and words of text protocols: ASCII alone, whatever the locale, so that nothing else is
// ever taken for a letter or a digit.
namespace daiv::wire {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_alphanumeric(char c) { return is_digit(c) || is_lower(c) || is_upper(c); }

// -1 where it is no hexadecimal digit.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower(c);
  return result;
}

constexpr bool equal_ignoring_case(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, [](char a, char b) { return lower(a) == lower(b); });
}

// Without the characters of `passed_over` at both ends; by default optional white space (RFC 9110
// §5.6.3).
constexpr std::string_view trim(std::string_view text, std::string_view passed_over = " \t") {
  const auto first = text.find_first_not_of(passed_over);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(passed_over) - first + 1);
}

// Without white space and ends of lines at both ends.
constexpr std::string_view trim_lines(std::string_view text) { return trim(text, " \t\r\n"); }

// RFC 9110 §5.6.2: what names of fields, methods and parameters are made of.
constexpr bool is_token_character(char c) {
  return is_alphanumeric(c) || std::string_view("!#$%&'*+-.^_`|~").contains(c);
}

constexpr bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_character);
}

}  // namespace daiv::wire
