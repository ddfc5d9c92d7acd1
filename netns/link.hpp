#pragma once

#include <string>

#include "netns/link_plan.hpp"
#include "netns/transparent_plan.hpp"
#include "os/unique_fd.hpp"

// The link between a sandbox and the proxy: a veth pair (veth(4)) from the sandbox's network
// namespace to one that holds nothing but the pair's other end and the proxy's sockets
// (proxy_sockets.hpp). Nothing is routed on from there, so what the sandbox can reach does not
// depend on any firewall rule.
//
// All of it enters other namespaces for a moment (setns(2)) and needs a process with one thread and
// CAP_SYS_ADMIN and CAP_NET_ADMIN. Everything throws os::Error.
namespace daiv::netns {

// The end inside the sandbox. Its name is what programs expect of a machine's first interface.
inline constexpr const char* sandbox_end = "eth0";
inline constexpr const char* proxy_end = "proxy0";

// A new network namespace for the proxy's end: `lo` down, no IPv6, no forwarding, no answer to
// echo requests. It lives as long as something refers to it.
os::UniqueFd make_proxy_namespace();

// Makes the pair between both namespaces, gives each end its address and brings it up. IPv6 is off
// on this link and on any later one; the sandbox's own `lo` keeps ::1. Without transparency the
// sandbox gets no default route: whatever is not the proxy's address is ENETUNREACH at once. With
// it plan_rules() says what else arrives at the proxy's end, which takes every address for its own.
void make_link(const os::UniqueFd& proxy_namespace, const os::UniqueFd& sandbox_namespace,
               const LinkAddresses& addresses, Transparency transparency);

// Waits until the proxy's end of a new link sends: the kernel hears of the other end's coming up a
// moment later, and drops until then what goes out, so that a first connection would wait a second
// for its second try. Throws os::Error{ETIMEDOUT}.
void settle_link(const os::UniqueFd& proxy_namespace);

// Whether this kernel can do what transparency needs.
bool supports_transparency();

// Keeps the namespace alive by a bind mount on `path`, a file made for it (namespaces(7)).
void hold_namespace(const os::UniqueFd& network_namespace, const std::string& path);
// The held namespace. os::Error{ENOENT | EINVAL} where nothing is held there.
os::UniqueFd open_held_namespace(const std::string& path);
// Undoes hold_namespace(). Nothing to do where nothing is held.
void release_namespace(const std::string& path);

}  // namespace daiv::netns
