#include "images/unpack/unpack_error.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace daiv::images::unpack {

namespace {

constexpr std::size_t max_printed = 200;

}  // namespace

std::string printable(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    if (text.size() > max_printed) return text + "…";
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x20 && byte < 0x7f && letter != '\\') {
      text += letter;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text;
}

}  // namespace daiv::images::unpack
