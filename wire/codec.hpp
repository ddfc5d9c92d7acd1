#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The bounded binary encoding that the broker's and the agent's messages share: little-endian
// integers, texts with a 32-bit length. It knows no socket and no message type.
namespace daiv::wire {

// Appends values to a buffer.
class Writer {
public:
  Writer& u8(std::uint8_t value);
  Writer& u32(std::uint32_t value);
  Writer& u64(std::uint64_t value);
  Writer& i64(std::int64_t value);
  Writer& boolean(bool value) { return u8(value ? 1 : 0); }
  // Throws std::length_error above 4 GiB.
  Writer& text(std::string_view value);
  Writer& texts(const std::vector<std::string>& values);

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string take() noexcept { return std::move(bytes_); }

private:
  std::string bytes_;
};

// What a peer sent does not decode. The text names what was wrong, never the bytes.
class DecodeError : public std::exception {
public:
  explicit DecodeError(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  std::string text_;
};

// Takes values from a buffer that it borrows. Each call throws DecodeError where the buffer is too
// short or a value is out of range; nothing is allocated beyond what the buffer really holds.
class Reader {
public:
  explicit Reader(std::string_view bytes) noexcept : rest_(bytes) {}

  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  std::int64_t i64();
  bool boolean();  // 0 or 1, anything else is an error
  std::string_view text();
  // At most `max_count` texts.
  std::vector<std::string> texts(std::uint32_t max_count);
  // Throws DecodeError where bytes are left.
  void finish() const;

private:
  std::string_view take(std::size_t count);

  std::string_view rest_;
};

}  // namespace daiv::wire
