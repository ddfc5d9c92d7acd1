#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Values of DER (ITU-T X.690), as far as a key store of Java needs them: definite lengths and tags
// of one byte. Recursion is the caller's, so nothing here can be nested too deeply.
namespace daiv::agent {

namespace der_tag {
inline constexpr std::uint8_t integer = 0x02;
inline constexpr std::uint8_t octets = 0x04;
inline constexpr std::uint8_t object_id = 0x06;
inline constexpr std::uint8_t bmp_string = 0x1e;
inline constexpr std::uint8_t sequence = 0x30;
inline constexpr std::uint8_t set = 0x31;
inline constexpr std::uint8_t explicit_0 = 0xa0;
}  // namespace der_tag

struct DerValue {
  std::uint8_t tag = 0;
  std::string_view content;
  std::string_view whole;  // tag and length too
};

// Takes values from a buffer that it borrows. Throws wire::DecodeError where the bytes are no DER
// or not what was asked for.
class DerReader {
public:
  explicit DerReader(std::string_view bytes) noexcept : rest_(bytes) {}

  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }
  DerValue next();
  std::string_view next(std::uint8_t tag);  // its content
  // A reader of the content of the next value.
  DerReader enter(std::uint8_t tag) { return DerReader(next(tag)); }
  std::uint32_t next_integer();  // that is not negative and fits
  void finish() const;           // throws where bytes are left

private:
  std::string_view rest_;
};

// One value, encoded.
std::string der_value(std::uint8_t tag, std::string_view content);

}  // namespace daiv::agent
