#pragma once

#include <expected>
#include <span>
#include <string>

#include "netns/link_plan.hpp"
#include "runtime/sandbox_plan.hpp"

namespace daiv::runtime {

// The broker's command line; `daiv-sandbox serve` and `daiv-sandbox broker` write it.
struct BrokerOptions {
  int socket_fd = 3;     // the connected front
  int listener_fd = -1;  // in its place: a listening socket, on which the front will connect
  std::string state_dir = "/var/lib/daiv-sandbox";
  std::string runtime_dir = "/run/daiv-sandbox";
  std::string claims_dir = "/run/daiv-sandbox-uids";  // the same for all daemons of a host
  UidRanges ranges;
  uid_t front_uid = 0;
  gid_t front_gid = 0;
  std::string agent;                      // path of daiv-sandbox-agent
  std::string unpack;                     // path of daiv-sandbox-unpack
  std::string cgroup_root;                // empty: daiv-sandbox below the cgroup2 mount
  std::uint64_t session_disk_bytes = 0;   // of a writable layer; 0: no bound
  std::uint64_t min_free_disk_bytes = 0;  // below: no new sessions and layers
  // Where the addresses of links to the proxy come from.
  netns::Subnet egress_subnet = *netns::parse_subnet(netns::default_subnet);
  // Name below os::named_networks of the network namespace that upstream sockets are opened in;
  // empty: none are.
  std::string egress_network;
};

// Every argument is --name=value. The error names the argument and what is accepted.
std::expected<BrokerOptions, std::string> parse_broker_options(
    std::span<const char* const> arguments);

}  // namespace daiv::runtime
