#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/dns_message.hpp"

// A reply is a whole message to the query that was sent, small enough for any client, and asks for
// one address at most.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv::proxy;
  const std::string_view query(reinterpret_cast<const char*>(data), size);
  int asked = 0;
  const std::string reply = answer_dns_query(query, [&](const HostName& name) {
    ++asked;
    if (name.text().empty() || name.is_address()) std::abort();
    return std::uint32_t{0x64700001};
  });
  if (asked > 1 || reply.size() > max_dns_reply_bytes) std::abort();
  if (reply.empty()) return 0;
  if (reply.size() < 12 || !query.starts_with(reply.substr(0, 2)) || (reply[2] & 0x80) == 0)
    std::abort();
  // It must not be taken for a query by another reader: replies to replies would never end.
  if (!answer_dns_query(reply, [](const HostName&) { return std::uint32_t{0}; }).empty())
    std::abort();
  return 0;
}
