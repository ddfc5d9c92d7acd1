#include "proxy/detail/openssl_handle.hpp"

#include <fmt/format.h>
#include <openssl/err.h>

#include <array>
#include <stdexcept>

namespace daiv::proxy {

std::string take_openssl_error() {
  const unsigned long code = ::ERR_peek_last_error();
  ::ERR_clear_error();
  if (code == 0) return "unknown error";
  std::array<char, 256> text{};
  ::ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

void require(bool ok, std::string_view call) {
  if (!ok) throw std::runtime_error(fmt::format("{}: {}", call, take_openssl_error()));
}

}  // namespace daiv::proxy
