#include "api/json_text.hpp"

#include <bit>
#include <cstdint>

#include "api/utf8.hpp"

namespace daiv::api {
namespace {

struct Encoding {
  std::size_t unit = 1;  // bytes of a code unit
  std::endian order = std::endian::little;
  std::size_t mark = 0;  // bytes of the byte order mark
};

bool is_zero(std::string_view body, std::size_t index) { return body[index] == '\0'; }

// json.detect_encoding: a byte order mark, else where the NUL bytes of the first characters stand
// (RFC 4627, section 3).
Encoding detect(std::string_view body) {
  using namespace std::string_view_literals;
  if (body.starts_with("\xff\xfe\0\0"sv)) return {4, std::endian::little, 4};
  if (body.starts_with("\0\0\xfe\xff"sv)) return {4, std::endian::big, 4};
  if (body.starts_with("\xff\xfe"sv)) return {2, std::endian::little, 2};
  if (body.starts_with("\xfe\xff"sv)) return {2, std::endian::big, 2};
  if (body.starts_with("\xef\xbb\xbf"sv)) return {1, std::endian::little, 3};
  if (body.size() >= 4) {
    if (is_zero(body, 0)) return {is_zero(body, 1) ? 4U : 2U, std::endian::big, 0};
    if (is_zero(body, 1))
      return {is_zero(body, 2) && is_zero(body, 3) ? 4U : 2U, std::endian::little, 0};
  } else if (body.size() == 2) {
    if (is_zero(body, 0)) return {2, std::endian::big, 0};
    if (is_zero(body, 1)) return {2, std::endian::little, 0};
  }
  return {};
}

std::uint32_t unit_at(std::string_view body, std::size_t at, const Encoding& encoding) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < encoding.unit; ++i) {
    const std::size_t place = encoding.order == std::endian::big ? i : encoding.unit - 1 - i;
    value = (value << 8U) | static_cast<unsigned char>(body[at + place]);
  }
  return value;
}

bool is_high(std::uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low(std::uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

bool convert(std::string_view body, const Encoding& encoding, std::string& out) {
  if (body.size() % encoding.unit != 0) return false;
  for (std::size_t at = 0; at < body.size(); at += encoding.unit) {
    std::uint32_t unit = unit_at(body, at, encoding);
    if (encoding.unit == 2 && is_high(unit)) {
      at += 2;
      if (at >= body.size()) return false;
      const std::uint32_t low = unit_at(body, at, encoding);
      if (!is_low(low)) return false;
      unit = 0x10000 + ((unit - 0xd800) << 10U) + (low - 0xdc00);
    }
    if (unit > 0x10ffff || is_high(unit) || is_low(unit)) return false;
    append_utf8(out, unit);
  }
  return true;
}

}  // namespace

std::optional<std::string_view> json_text(std::string_view body, std::string& storage) {
  const Encoding encoding = detect(body);
  body.remove_prefix(encoding.mark);
  if (encoding.unit == 1) {
    if (find_invalid_utf8(body)) return std::nullopt;
    return body;
  }
  storage.clear();
  if (!convert(body, encoding, storage)) return std::nullopt;
  return storage;
}

}  // namespace daiv::api
