#include "agent/der.hpp"

#include "wire/codec.hpp"

namespace daiv::agent {
namespace {

using wire::DecodeError;

constexpr std::uint8_t long_length = 0x80;
constexpr std::size_t max_length_bytes = 4;

std::uint8_t byte_at(std::string_view bytes, std::size_t index) {
  if (index >= bytes.size()) throw DecodeError("DER ends early");
  return static_cast<std::uint8_t>(bytes[index]);
}

std::size_t big_endian(std::string_view bytes, std::size_t begin, std::size_t count) {
  std::size_t value = 0;
  for (std::size_t index = 0; index < count; ++index)
    value = value << 8U | byte_at(bytes, begin + index);
  return value;
}

}  // namespace

DerValue DerReader::next() {
  constexpr std::uint8_t long_tag = 0x1f;
  const std::uint8_t tag = byte_at(rest_, 0);
  if ((tag & long_tag) == long_tag) throw DecodeError("DER has a long tag");
  const std::uint8_t first = byte_at(rest_, 1);
  const std::size_t count = first < long_length ? 0 : first - long_length;
  // No bytes at all would be BER's indefinite length.
  if (first >= long_length && (count == 0 || count > max_length_bytes))
    throw DecodeError("DER has an odd length");
  const std::size_t size = count == 0 ? first : big_endian(rest_, 2, count);
  const std::size_t head = 2 + count;
  if (size > rest_.size() - head) throw DecodeError("DER ends early");
  const DerValue value{tag, rest_.substr(head, size), rest_.substr(0, head + size)};
  rest_.remove_prefix(head + size);
  return value;
}

std::string_view DerReader::next(std::uint8_t tag) {
  const DerValue value = next();
  if (value.tag != tag) throw DecodeError("DER has another type");
  return value.content;
}

std::uint32_t DerReader::next_integer() {
  const std::string_view content = next(der_tag::integer);
  if (content.empty() || content.size() > sizeof(std::uint32_t) ||
      (byte_at(content, 0) & long_length) != 0)
    throw DecodeError("DER has an integer out of range");
  return static_cast<std::uint32_t>(big_endian(content, 0, content.size()));
}

void DerReader::finish() const {
  if (!at_end()) throw DecodeError("DER has bytes left");
}

std::string der_value(std::uint8_t tag, std::string_view content) {
  std::string length;
  for (std::size_t rest = content.size(); rest != 0; rest >>= 8U)
    length.insert(length.begin(), static_cast<char>(rest & 0xffU));
  std::string value(1, static_cast<char>(tag));
  if (content.size() < long_length) {
    value += static_cast<char>(content.size());
  } else {
    value += static_cast<char>(long_length | length.size());
    value += length;
  }
  return value.append(content);
}

}  // namespace daiv::agent
