#pragma once

#include <cstdint>
#include <vector>

#include "netns/transparent_plan.hpp"
#include "os/unique_fd.hpp"

// The proxy's sockets in the namespace at its end of a session's link. They need what link.hpp
// needs.
namespace daiv::netns {

// A listening TCP socket on `port` of the proxy's `address`. With transparency four more follow:
// TCP on ports 80 and 443 of every address, UDP and TCP on port 53 of the proxy's. All of them are
// non-blocking. The address need not be there yet. Throws os::Error.
std::vector<os::UniqueFd> open_proxy_sockets(const os::UniqueFd& network_namespace,
                                             std::uint32_t address, std::uint16_t port,
                                             Transparency transparency);

// The proxy's address in a namespace whose link is made. Throws os::Error{ENODEV}.
std::uint32_t find_proxy_address(const os::UniqueFd& network_namespace);

}  // namespace daiv::netns
