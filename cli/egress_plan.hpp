#pragma once

#include <boost/asio/ip/address.hpp>

#include <string>
#include <vector>

#include "cli/settings.hpp"
#include "cli/upstream_network.hpp"
#include "proxy/egress_proxy.hpp"
#include "sessions/egress_policy.hpp"

// Settings and policies as the proxy takes them. Pure, but for own_addresses().
namespace daiv::cli {

proxy::Policy plan_policy(const sessions::EgressPolicy& policy);

// Everything but the authority and the sockets that are not the front's own.
proxy::EgressSettings plan_egress(const Settings& settings, const UpstreamNetwork& network);

// The addresses of this host's interfaces now (getifaddrs(3)).
std::vector<boost::asio::ip::address> own_addresses();

// One line for the operator's log. What can't be printed in ASCII is a question mark.
std::string describe(const proxy::Decision& decision);
const char* describe(proxy::Decision::Kind kind);

std::string expose(const proxy::EgressCounters& counters);

}  // namespace daiv::cli
