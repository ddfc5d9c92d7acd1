#include "netns/link.hpp"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/magic.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "netns/detail/visit.hpp"
#include "netns/rtnl.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/namespace.hpp"

namespace daiv::netns {
namespace {

// /proc/sys/net shows the namespace of whoever opens the file (network_namespaces(7)).
void set_sysctl(const std::string& name, std::string_view value) {
  os::write_full(os::open_file("/proc/sys/net/" + name, O_WRONLY), value);
}

// A kernel without IPv6 has no such setting, and nothing to switch off.
void disable_ipv6(const std::string& interfaces) {
  try {
    set_sysctl("ipv6/conf/" + interfaces + "/disable_ipv6", "1");
  } catch (const os::Error& error) {
    if (error.error_number() != ENOENT) throw;
  }
}

bool is_namespace(const os::UniqueFd& file) {
  struct statfs status{};
  os::check(::fstatfs(file.get(), &status), "fstatfs", "namespace");
  return status.f_type == NSFS_MAGIC;
}

constexpr std::chrono::milliseconds settle_limit{5000};
constexpr std::chrono::milliseconds settle_pause{1};

ifreq request_for(const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  return request;
}

// The question itself makes newer kernels take up the change at once (net/core/link_watch.c,
// linkwatch_sync_dev; Linux 6.8).
void ask_for_carrier(const os::UniqueFd& socket, const char* name) {
  ifreq request = request_for(name);
  ethtool_value value{ETHTOOL_GLINK, 0};
  request.ifr_data = reinterpret_cast<char*>(&value);
  os::check(::ioctl(socket.get(), SIOCETHTOOL, &request), "ioctl", "ETHTOOL_GLINK");
}

bool is_running(const os::UniqueFd& socket, const char* name) {
  ifreq request = request_for(name);
  os::check(::ioctl(socket.get(), SIOCGIFFLAGS, &request), "ioctl", "SIOCGIFFLAGS");
  return (request.ifr_flags & IFF_RUNNING) != 0;
}

}  // namespace

os::UniqueFd make_proxy_namespace() {
  const os::UniqueFd home = open_network_namespace();
  const Visit and_back(home);
  os::unshare(CLONE_NEWNET);
  disable_ipv6("all");
  disable_ipv6("default");
  // A new namespace takes these from the host's (ip-sysctl, devconf_inherit_init_net).
  set_sysctl("ipv4/ip_forward", "0");
  set_sysctl("ipv4/icmp_echo_ignore_all", "1");
  // Every refused datagram is answered, not only the first few of a second (icmp(7)).
  set_sysctl("ipv4/icmp_ratemask", "0");
  return open_network_namespace();
}

void make_link(const os::UniqueFd& proxy_namespace, const os::UniqueFd& sandbox_namespace,
               const LinkAddresses& addresses, Transparency transparency) {
  {
    const Visit sandbox(sandbox_namespace);
    disable_ipv6("default");  // before the link is there, or it would get an address of its own
  }
  {
    const Visit proxy(proxy_namespace);
    Rtnl rtnl;
    rtnl.add_veth(proxy_end, sandbox_end, sandbox_namespace);
    rtnl.add_address(proxy_end, addresses.proxy, addresses.sandbox);
    rtnl.bring_up(proxy_end);
    if (transparency == Transparency::on) rtnl.add_local_default_route(proxy_end);
  }
  const Visit sandbox(sandbox_namespace);
  Rtnl rtnl;
  rtnl.add_address(sandbox_end, addresses.sandbox, addresses.proxy);
  rtnl.bring_up(sandbox_end);
  if (transparency == Transparency::off) return;
  for (const RouteRule& rule : plan_rules(addresses)) rtnl.add_rule(rule);
  rtnl.add_default_route(sandbox_end, addresses.proxy);
}

void settle_link(const os::UniqueFd& proxy_namespace) {
  const Visit proxy(proxy_namespace);
  const os::UniqueFd socket(
      os::check(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket", "interface"));
  const auto until = std::chrono::steady_clock::now() + settle_limit;
  ask_for_carrier(socket, proxy_end);
  while (!is_running(socket, proxy_end)) {
    if (std::chrono::steady_clock::now() >= until) throw os::Error(ETIMEDOUT, "wait", proxy_end);
    std::this_thread::sleep_for(settle_pause);
  }
}

bool supports_transparency() { return Rtnl().has_rules(); }

void hold_namespace(const os::UniqueFd& network_namespace, const std::string& path) {
  release_namespace(path);
  const os::UniqueFd file = os::open_file(path, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  const std::string source = "/proc/self/fd/" + std::to_string(network_namespace.get());
  const std::string target = "/proc/self/fd/" + std::to_string(file.get());
  os::check(::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr), "mount", path);
}

os::UniqueFd open_held_namespace(const std::string& path) {
  os::UniqueFd file = os::open_file(path, O_RDONLY | O_NOFOLLOW);
  if (!is_namespace(file)) throw os::Error(EINVAL, "open", path);
  return file;
}

void release_namespace(const std::string& path) {
  // EINVAL: nothing is mounted there (umount(2)). More than one may be, after a crash between.
  while (::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
  }
  if (errno != ENOENT && errno != EINVAL && errno != ENOTDIR) os::throw_errno("umount2", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
    os::throw_errno("unlink", path);
}

}  // namespace daiv::netns
