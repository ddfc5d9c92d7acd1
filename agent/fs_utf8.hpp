#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// UTF-8 as Python's strict decoder takes it (RFC 3629: no overlong forms, no surrogates, at most
// U+10FFFF).
namespace daiv::agent {

struct Utf8Character {
  std::uint32_t code_point = 0;
  std::size_t length = 0;  // bytes; 0 where the text does not begin with a whole, valid character
};

// The character at the beginning of `text`.
Utf8Character decode_utf8(std::string_view text);

// How many bytes at the beginning of `text` are whole, valid characters.
std::size_t valid_utf8_prefix(std::string_view text);

// Whether `text` (shorter than a character, at the end of what was read) may become a valid
// character with more bytes.
bool is_utf8_beginning(std::string_view text);

// Appends `code_point` in UTF-8.
void append_utf8(std::string& out, std::uint32_t code_point);

}  // namespace daiv::agent
