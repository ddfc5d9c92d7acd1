#pragma once

#include <cstdint>
#include <memory>

#include "netns/transparent_plan.hpp"
#include "os/unique_fd.hpp"

// Route netlink (rtnetlink(7)) by libnl, for the network namespace in which the object was made.
namespace daiv::netns {

class Rtnl {
public:
  // Throws os::Error, as everything here.
  Rtnl();
  ~Rtnl();
  Rtnl(const Rtnl&) = delete;
  Rtnl& operator=(const Rtnl&) = delete;

  // A veth pair: `name` here, `peer` in the namespace that `peer_namespace` is open on.
  void add_veth(const char* name, const char* peer, const os::UniqueFd& peer_namespace);
  // `local`/32 on `name`, with a route to `peer` and to nothing else. Host byte order.
  void add_address(const char* name, std::uint32_t local, std::uint32_t peer);
  void bring_up(const char* name);
  // `gateway`, a neighbour on `name`, leads to every address.
  void add_default_route(const char* name, std::uint32_t gateway);
  // Every address that no other route knows is this namespace's own on `name` (AnyIP): ip-route(8),
  // type local.
  void add_local_default_route(const char* name);
  void add_rule(const RouteRule& rule);
  // Whether the kernel chooses routes by rules (CONFIG_IP_MULTIPLE_TABLES).
  bool has_rules();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::netns
