#include "runtime/names.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "wire/ascii.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t layer_name_bytes = 6;
constexpr std::size_t max_helper_name_bytes = 64;
constexpr std::size_t max_hostname_bytes = 64;
constexpr std::size_t max_label_bytes = 63;
constexpr std::size_t sha256_digits = 64;
constexpr std::size_t plain_id_digits = 32;
constexpr std::string_view sha256_prefix = "sha256:";

bool is_hex(char c) { return wire::is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_host_character(char c) { return wire::is_alphanumeric(c) || c == '-'; }

bool is_uuid(std::string_view text) {
  constexpr std::array<std::size_t, 4> dashes{8, 13, 18, 23};
  if (text.size() != plain_id_digits + dashes.size()) return false;
  for (std::size_t index = 0; index < text.size(); ++index) {
    const bool dash = std::ranges::find(dashes, index) != dashes.end();
    if (dash ? text[index] != '-' : !is_hex(text[index])) return false;
  }
  return true;
}

bool is_label(std::string_view label) {
  return !label.empty() && label.size() <= max_label_bytes && label.front() != '-' &&
         label.back() != '-' && std::ranges::all_of(label, is_host_character);
}

}  // namespace

bool is_session_id(std::string_view text) {
  if (text.size() == plain_id_digits) return std::ranges::all_of(text, is_hex);
  return is_uuid(text);
}

bool is_layer_name(std::string_view text) {
  return text.size() == layer_name_bytes &&
         std::ranges::all_of(text, [](char c) { return wire::is_digit(c) || wire::is_lower(c); });
}

bool is_diff_id(std::string_view text) {
  if (!text.starts_with(sha256_prefix)) return false;
  text.remove_prefix(sha256_prefix.size());
  return text.size() == sha256_digits && std::ranges::all_of(text, is_hex);
}

bool is_helper_name(std::string_view text) {
  return !text.empty() && text.size() <= max_helper_name_bytes && text.front() != '-' &&
         std::ranges::all_of(text, [](char c) {
           return wire::is_digit(c) || wire::is_lower(c) || c == '-' || c == '_';
         });
}

bool is_hostname(std::string_view text) {
  if (text.size() > max_hostname_bytes) return false;
  for (;;) {
    const std::size_t dot = text.find('.');
    if (!is_label(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

}  // namespace daiv::runtime
