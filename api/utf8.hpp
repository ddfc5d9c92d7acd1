#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// UTF-8 as Python reads it.
namespace daiv::api {

// What stands at the start of `bytes` (Unicode 15, table 3-7): a character of `length` bytes; or an
// ill-formed sequence whose first `length` bytes Python's errors="replace" turns into one U+FFFD;
// or the beginning of a character that `bytes` cuts off. `bytes` must not be empty.
enum class Utf8Kind { character, ill_formed, cut };
struct Utf8Step {
  Utf8Kind kind;
  std::size_t length;
};
Utf8Step scan_utf8(std::string_view bytes) noexcept;

// Where the first byte stands that is no UTF-8; empty where all is. Encoded surrogates are no
// UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view bytes) noexcept;

void append_utf8(std::string& out, char32_t character);

// How many characters the valid UTF-8 `text` has.
std::size_t count_characters(std::string_view text) noexcept;

// Turns a byte stream into UTF-8, piece by piece, as bytes.decode(errors="replace") does it for the
// whole.
class Utf8Replacer {
public:
  // Appends the text of `bytes` to `out`; a character that the piece cuts off waits for the next
  // one.
  void append(std::string& out, std::string_view bytes);
  // The stream ended: what waits becomes U+FFFD.
  void finish(std::string& out);

private:
  std::string waiting_;  // at most three bytes
};

// `bytes` as text, as bytes.decode(errors="replace").
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace daiv::api
