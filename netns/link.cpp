#include "netns/link.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "netns/rtnl.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/namespace.hpp"

namespace daiv::netns {
namespace {

constexpr int backlog = 1024;

os::UniqueFd open_own_namespace() { return os::open_file("/proc/self/ns/net", O_RDONLY); }

// In another network namespace until the end of the scope.
class Visit {
public:
  explicit Visit(const os::UniqueFd& target) : home_(open_own_namespace()) {
    os::check(::setns(target.get(), CLONE_NEWNET), "setns", "network namespace");
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  // A process that can't come home must not go on where it does not belong.
  ~Visit() {
    if (::setns(home_.get(), CLONE_NEWNET) != 0) ::_exit(1);
  }

private:
  os::UniqueFd home_;
};

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

}  // namespace

os::UniqueFd make_proxy_namespace() {
  const os::UniqueFd home = open_own_namespace();
  const Visit and_back(home);
  os::unshare(CLONE_NEWNET);
  disable_ipv6("all");
  disable_ipv6("default");
  // A new namespace takes these from the host's (ip-sysctl, devconf_inherit_init_net).
  set_sysctl("ipv4/ip_forward", "0");
  set_sysctl("ipv4/icmp_echo_ignore_all", "1");
  return open_own_namespace();
}

void make_link(const os::UniqueFd& proxy_namespace, const os::UniqueFd& sandbox_namespace,
               const LinkAddresses& addresses) {
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
  }
  const Visit sandbox(sandbox_namespace);
  Rtnl rtnl;
  rtnl.add_address(sandbox_end, addresses.sandbox, addresses.proxy);
  rtnl.bring_up(sandbox_end);
}

os::UniqueFd listen_in(const os::UniqueFd& network_namespace, std::uint16_t port) {
  const Visit inside(network_namespace);
  os::UniqueFd socket(os::check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                "socket", "proxy"));
  const int on = 1;
  os::check(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "setsockopt",
            "SO_REUSEADDR");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  os::check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            "bind", "proxy");
  os::check(::listen(socket.get(), backlog), "listen", "proxy");
  return socket;
}

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
