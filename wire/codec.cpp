#include "wire/codec.hpp"

#include <limits>
#include <stdexcept>

namespace daiv::wire {
namespace {

constexpr std::size_t large_text_bytes = 64U << 10;
constexpr std::size_t spare_bytes = 64;

template <typename Integer>
void append_little_endian(std::string& bytes, Integer value) {
  for (unsigned shift = 0; shift < sizeof value * 8; shift += 8)
    bytes.push_back(static_cast<char>((value >> shift) & 0xff));
}

template <typename Integer>
Integer little_endian(std::string_view bytes) {
  Integer value = 0;
  for (std::size_t index = bytes.size(); index-- > 0;)
    value = static_cast<Integer>((value << 8) | static_cast<unsigned char>(bytes[index]));
  return value;
}

}  // namespace

Writer& Writer::u8(std::uint8_t value) {
  bytes_.push_back(static_cast<char>(value));
  return *this;
}

Writer& Writer::u32(std::uint32_t value) {
  append_little_endian(bytes_, value);
  return *this;
}

Writer& Writer::u64(std::uint64_t value) {
  append_little_endian(bytes_, value);
  return *this;
}

Writer& Writer::i64(std::int64_t value) { return u64(static_cast<std::uint64_t>(value)); }

Writer& Writer::text(std::string_view value) {
  if (value.size() > std::numeric_limits<std::uint32_t>::max())
    throw std::length_error("text over 4 GiB");
  u32(static_cast<std::uint32_t>(value.size()));
  // What follows a large text is small: it must not make all of it move to a place twice as large.
  if (value.size() > large_text_bytes) bytes_.reserve(bytes_.size() + value.size() + spare_bytes);
  bytes_.append(value);
  return *this;
}

Writer& Writer::texts(const std::vector<std::string>& values) {
  u32(static_cast<std::uint32_t>(values.size()));
  for (const auto& value : values) text(value);
  return *this;
}

std::string_view Reader::take(std::size_t count) {
  if (count > rest_.size()) throw DecodeError("message ends too early");
  const auto taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::uint8_t Reader::u8() { return static_cast<std::uint8_t>(take(1)[0]); }
std::uint32_t Reader::u32() { return little_endian<std::uint32_t>(take(4)); }
std::uint64_t Reader::u64() { return little_endian<std::uint64_t>(take(8)); }
std::int64_t Reader::i64() { return static_cast<std::int64_t>(u64()); }

bool Reader::boolean() {
  const auto value = u8();
  if (value > 1) throw DecodeError("boolean out of range");
  return value == 1;
}

std::string_view Reader::text() { return take(u32()); }

std::vector<std::string> Reader::texts(std::uint32_t max_count) {
  const auto count = u32();
  if (count > max_count) throw DecodeError("too many items");
  std::vector<std::string> values;
  // NOLINTNEXTLINE(performance-inefficient-vector-operation): a claimed count reserves nothing
  for (std::uint32_t index = 0; index < count; ++index) values.emplace_back(text());
  return values;
}

void Reader::finish() const {
  if (!rest_.empty()) throw DecodeError("message is too long");
}

}  // namespace daiv::wire
