#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "os/unique_fd.hpp"

// Network namespaces that have a name on this host (ip-netns(8), namespaces(7)).
namespace daiv::os {

// Where ip-netns(8) binds them.
inline constexpr std::string_view named_networks = "/run/netns";

// What ip-netns(8) takes for a name, of printable ASCII without spaces and quotes: one component of
// a path, which is neither "." nor "..".
bool is_network_name(std::string_view text);

// Tells a namespace from one that was made later under the same name. The kernel gives the number
// of one that is gone to the next, but its file is another.
struct NetworkIdentity {
  std::uint64_t inode = 0;
  std::uint64_t since_ns = 0;  // change time of the file, since 1970

  friend bool operator==(const NetworkIdentity&, const NetworkIdentity&) = default;
};

// Opens the network namespace that is bound to `path`; a symbolic link is not followed. Needs no
// privilege. Throws os::Error, EINVAL where it is something else.
UniqueFd open_network(const std::string& path);
NetworkIdentity identify_network(const UniqueFd& network);
// Empty where open_network() would throw.
std::optional<NetworkIdentity> find_network(const std::string& path);

// Whether packets to `address` (4 or 16 bytes, as they are sent) end in the network namespace of
// `routes`, a NETLINK_ROUTE socket (rtnetlink(7), RTM_GETROUTE). Needs no privilege. One thread at
// a time for each socket. Throws os::Error where the kernel gives no clear answer.
bool is_local_address(const UniqueFd& routes, std::span<const unsigned char> address);

}  // namespace daiv::os
