#include "sessions/session_record.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <span>

#include "os/error.hpp"

namespace daiv::sessions {

std::string make_session_id() {
  std::array<std::uint8_t, 16> bytes{};
  // Up to 256 bytes come whole (getrandom(2)).
  os::check(os::retry_eintr([&] { return ::getrandom(bytes.data(), bytes.size(), 0); }),
            "getrandom", "session id");
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0fU) | 0x40U);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3fU) | 0x80U);
  const std::span<const std::uint8_t> all(bytes);
  std::string id;
  for (std::size_t index = 0; index < all.size(); ++index) {
    if (index == 4 || index == 6 || index == 8 || index == 10) id += '-';
    id += fmt::format("{:02x}", all[index]);
  }
  return id;
}

}  // namespace daiv::sessions
