#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "os/network_namespace.hpp"
#include "os/unique_fd.hpp"

// Sockets of a named network namespace, for connections to origins and name servers. They need
// what link.hpp needs, and CAP_SETUID and CAP_SETGID.
namespace daiv::netns {

// Whose the sockets are to be: rules of a firewall or of routing by user see them as this one's.
struct SocketOwner {
  uid_t uid = 0;
  gid_t gid = 0;
};

struct UpstreamSockets {
  os::NetworkIdentity network;       // of the namespace that all of them are of
  std::vector<os::UniqueFd> opened;  // a NETLINK_ROUTE socket, then those that were asked for
};

// `count` unconnected sockets of this family (AF_INET, AF_INET6) and type (SOCK_STREAM,
// SOCK_DGRAM), non-blocking. Throws os::Error; EINVAL where `network` is the present namespace:
// what is meant to leave through another one must not leave through the host's.
UpstreamSockets open_upstream_sockets(const os::UniqueFd& network, int family, int type,
                                      std::size_t count, SocketOwner owner);

}  // namespace daiv::netns
