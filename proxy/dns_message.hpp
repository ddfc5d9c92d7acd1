#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "proxy/host_name.hpp"

// The resolver that sandboxes ask in transparent mode, without its sockets. Pure. It asks nobody:
// what it answers depends on the question alone, so a question carries nothing out.
namespace daiv::proxy {

inline constexpr std::size_t max_dns_query_bytes = 4096;

// The address (IPv4, host byte order) that stands for a name.
using NameToAddress = std::function<std::uint32_t(const HostName&)>;

// The reply to one query (RFC 1035 §4.1); empty where none is due: what is shorter than a header,
// or a reply itself. A host name has the A record that `address_of` gives, and no record of another
// type (AAAA, HTTPS and SVCB with it): programs go on with IPv4 and without QUIC. "localhost" is
// the sandbox's own (RFC 6761 §6.3). Names that are no host's, and those below "arpa", do not
// exist. The reply is never longer than max_dns_reply_bytes.
std::string answer_dns_query(std::string_view query, const NameToAddress& address_of);

inline constexpr std::size_t max_dns_reply_bytes = 512;

}  // namespace daiv::proxy
