#include "netns/upstream_sockets.hpp"

#include <linux/netlink.h>
#include <sys/fsuid.h>
#include <sys/socket.h>

#include "netns/detail/visit.hpp"

namespace daiv::netns {
namespace {

// A socket belongs to the file system user of who makes it (setfsuid(2)): neither call tells of
// failure, so both are asked again.
class ActAs {
public:
  explicit ActAs(SocketOwner owner) {
    ::setfsgid(owner.gid);
    ::setfsuid(owner.uid);
    constexpr auto nobody_new = static_cast<unsigned>(-1);  // changes nothing
    const bool is_owner = static_cast<uid_t>(::setfsuid(nobody_new)) == owner.uid &&
                          static_cast<gid_t>(::setfsgid(nobody_new)) == owner.gid;
    if (is_owner) return;
    restore();
    throw os::Error(EPERM, "setfsuid", "owner of the sockets");
  }
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;
  ~ActAs() { restore(); }

private:
  static void restore() noexcept {
    ::setfsuid(::geteuid());
    ::setfsgid(::getegid());
  }
};

os::UniqueFd open_socket(int family, int type, int protocol) {
  return os::UniqueFd(os::check(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol),
                                "socket", "upstream"));
}

}  // namespace

UpstreamSockets open_upstream_sockets(const os::UniqueFd& network, int family, int type,
                                      std::size_t count, SocketOwner owner) {
  UpstreamSockets sockets;
  sockets.network = os::identify_network(network);
  if (os::identify_network(open_network_namespace()).inode == sockets.network.inode)
    throw os::Error(EINVAL, "network namespace", "the host's own");
  const Visit inside(network);
  const ActAs front(owner);
  sockets.opened.push_back(open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
  while (sockets.opened.size() <= count) sockets.opened.push_back(open_socket(family, type, 0));
  return sockets;
}

}  // namespace daiv::netns
