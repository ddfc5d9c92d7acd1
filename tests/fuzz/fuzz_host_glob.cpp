#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proxy/host_glob.hpp"
#include "proxy/host_name.hpp"

// The first line is a rule's host, the second a client's. A host that parses is its own canonical
// form, and a glob says the same of every spelling.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv::proxy;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto line = bytes.find('\n');
  if (line == std::string_view::npos || size > 4096) return 0;
  const HostGlob glob(bytes.substr(0, line));
  const auto host = HostName::parse(bytes.substr(line + 1));
  if (!host) return 0;
  const auto again = HostName::parse(host->text());
  if (!again || again->text() != host->text()) std::abort();
  if (glob.matches(*host, 443) != glob.matches(*again, 443)) std::abort();
  return 0;
}
