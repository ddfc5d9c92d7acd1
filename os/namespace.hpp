#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "os/unique_fd.hpp"

// User namespaces and their id maps, the host name and the loopback device of the present
// namespaces (user_namespaces(7), network_namespaces(7)). Everything throws os::Error.
namespace daiv::os {

// One line of /proc/<pid>/uid_map.
struct IdExtent {
  std::uint32_t inside = 0;
  std::uint32_t outside = 0;
  std::uint32_t count = 0;

  friend bool operator==(const IdExtent&, const IdExtent&) = default;
};

// The text that the map's file takes in one write.
std::string format_id_map(std::span<const IdExtent> extents);

// Writes both maps of a process that was cloned with CLONE_NEWUSER.
void write_id_maps(pid_t pid, std::span<const IdExtent> uids, std::span<const IdExtent> gids);

// A user namespace with this map for uids and gids, held by its descriptor alone: for idmapped
// mounts.
UniqueFd make_user_namespace(std::span<const IdExtent> extents);

// unshare(2).
void unshare(int flags);

// sethostname(2).
void set_hostname(const std::string& name);

// Brings "lo" up in the present network namespace (netdevice(7), SIOCSIFFLAGS).
void bring_loopback_up();

}  // namespace daiv::os
