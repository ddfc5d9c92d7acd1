#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proxy/client_hello.hpp"
#include "proxy/host_name.hpp"

// What is read from a hello must not depend on how much of it has come, nor change with what
// follows: else a tunnel would be judged by another name than the origin sees.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv::proxy;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const HelloPeek whole = peek_client_hello(bytes);
  if (whole.server_name) static_cast<void>(HostName::parse(*whole.server_name));
  for (std::size_t cut = 0; cut < size && cut < 2048; ++cut) {
    const HelloPeek part = peek_client_hello(bytes.substr(0, cut));
    if (part.kind == HelloPeek::Kind::incomplete) continue;
    if (part.kind != whole.kind || part.server_name != whole.server_name) std::abort();
  }
  return 0;
}
