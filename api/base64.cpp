#include "api/base64.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace daiv::api {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 0xff;

constexpr std::array<std::uint8_t, 256> make_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(no_digit);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    values[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
  return values;
}
constexpr std::array<std::uint8_t, 256> values = make_values();

std::uint32_t value_of(char digit) { return values[static_cast<unsigned char>(digit)]; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string not_alone(std::size_t characters) {
  return fmt::format(
      "Invalid base64-encoded string: number of data characters ({}) cannot be 1 more than a "
      "multiple of 4",
      characters);
}

// Where decoded bytes go; nowhere, where they are only counted.
enum class Result { bytes, count };

// Decodes the whole groups of four digits that `text` begins with to `out`, which has room for
// them and may be the text's own place. Returns how many groups: what most texts consist of costs
// no decision a byte.
template <Result result>
std::size_t decode_groups(std::string_view text, char* out) {
  std::size_t groups = 0;
  for (; text.size() >= 4; text.remove_prefix(4)) {
    const std::uint32_t first = value_of(text[0]);
    const std::uint32_t second = value_of(text[1]);
    const std::uint32_t third = value_of(text[2]);
    const std::uint32_t fourth = value_of(text[3]);
    if ((first | second | third | fourth) > 0x3fU) break;
    const std::uint32_t bits = (first << 18U) | (second << 12U) | (third << 6U) | fourth;
    if constexpr (result == Result::bytes) {
      *out++ = static_cast<char>(bits >> 16U);
      *out++ = static_cast<char>((bits >> 8U) & 0xffU);
      *out++ = static_cast<char>(bits & 0xffU);
    }
    ++groups;
  }
  return groups;
}

// How many bytes `text` decodes to. They are written behind what was read: `out` may be its place.
template <Result result>
std::expected<std::size_t, std::string> decode(std::string_view text, char* out) {
  std::size_t size = 0;
  std::uint32_t bits = 0;
  std::size_t place = 0;  // of the next character in its group of four
  std::size_t pads = 0;
  bool foreign = false;  // reported last: what binascii finds wrong too keeps its words
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (place == 0) {
      char* const next = result == Result::bytes ? out + size : nullptr;
      const std::size_t groups = decode_groups<result>(text.substr(at), next);
      size += 3 * groups;
      at += 4 * groups;
      if (groups > 0) pads = 0;
      if (at == text.size()) break;
    }
    const char c = text[at];
    if (c == '=') {
      if (place >= 2 && place + ++pads >= 4) {
        place = 0;
        break;
      }
      continue;
    }
    const std::uint32_t value = value_of(c);
    if (value == no_digit) {
      foreign = foreign || !is_space(c);
      continue;
    }
    pads = 0;
    bits = (bits << 6U) | value;
    // Bytes are written as soon as they are whole: the padding adds none.
    if (place != 0) {
      const std::uint32_t whole = bits >> (6U - 2U * static_cast<unsigned>(place));
      if constexpr (result == Result::bytes) out[size] = static_cast<char>(whole & 0xffU);
      ++size;
    }
    place = (place + 1) % 4;
  }
  if (place == 1) return std::unexpected(not_alone(size / 3 * 4 + 1));
  if (place != 0) return std::unexpected("Incorrect padding");
  if (foreign) return std::unexpected("Only base64 data is allowed");
  return size;
}

}  // namespace

std::expected<std::string, std::string> decode_base64(std::string text) {
  auto size = decode<Result::bytes>(text, text.data());
  if (!size) return std::unexpected(std::move(size.error()));
  text.resize(*size);
  return text;
}

std::expected<void, std::string> check_base64(std::string_view text) {
  auto size = decode<Result::count>(text, nullptr);
  if (!size) return std::unexpected(std::move(size.error()));
  return {};
}

std::string encode_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '=');
  char* place = out.data();
  for (std::size_t i = 0; i < bytes.size(); i += 3, place += 4) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = (group << 8U) | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k <= count; ++k)
      place[k] = alphabet[(group >> (18U - 6U * static_cast<unsigned>(k))) & 0x3fU];
  }
  return out;
}

}  // namespace daiv::api
