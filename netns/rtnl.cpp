#include "netns/rtnl.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>

#include <cerrno>
#include <string_view>

#include "os/error.hpp"

namespace daiv::netns {
namespace {

constexpr int host_prefix = 32;

// libnl's own numbers lose some of the kernel's (netlink/errno.h): these are the ones that tell.
int to_errno(int result) {
  switch (-result) {
    case NLE_EXIST:
      return EEXIST;
    case NLE_NOMEM:
      return ENOMEM;
    case NLE_PERM:
    case NLE_NOACCESS:
      return EPERM;
    case NLE_NODEV:
    case NLE_OBJ_NOTFOUND:
      return ENODEV;
    case NLE_OPNOTSUPP:
      return EOPNOTSUPP;
    case NLE_BUSY:
      return EBUSY;
    case NLE_AGAIN:
      return EAGAIN;
    default:
      return EINVAL;
  }
}

void check_nl(int result, const char* call, std::string_view object) {
  if (result < 0) throw os::Error(to_errno(result), call, object);
}

template <auto release>
struct Release {
  template <typename Object>
  void operator()(Object* object) const noexcept {
    release(object);
  }
};
using Socket = std::unique_ptr<nl_sock, Release<nl_socket_free>>;
using Link = std::unique_ptr<rtnl_link, Release<rtnl_link_put>>;
using Address = std::unique_ptr<rtnl_addr, Release<rtnl_addr_put>>;
using NlAddress = std::unique_ptr<nl_addr, Release<nl_addr_put>>;

template <typename Owner>
Owner allocated(Owner owner, const char* call) {
  if (!owner) throw os::Error(ENOMEM, call, "libnl");
  return owner;
}

NlAddress make_address(std::uint32_t address) {
  const in_addr bytes{htonl(address)};
  NlAddress made =
      allocated(NlAddress(nl_addr_build(AF_INET, &bytes, sizeof bytes)), "nl_addr_build");
  nl_addr_set_prefixlen(made.get(), host_prefix);
  return made;
}

int index_of(const char* name) {
  const unsigned index = ::if_nametoindex(name);
  if (index == 0) os::throw_errno("if_nametoindex", name);
  return static_cast<int>(index);
}

}  // namespace

struct Rtnl::Impl {
  Socket socket;
};

Rtnl::Rtnl() : impl_(std::make_unique<Impl>()) {
  impl_->socket = allocated(Socket(nl_socket_alloc()), "nl_socket_alloc");
  check_nl(nl_connect(impl_->socket.get(), NETLINK_ROUTE), "nl_connect", "route");
}

Rtnl::~Rtnl() = default;

void Rtnl::add_veth(const char* name, const char* peer, const os::UniqueFd& peer_namespace) {
  const Link link = allocated(Link(rtnl_link_veth_alloc()), "rtnl_link_veth_alloc");
  rtnl_link_set_name(link.get(), name);
  {
    const Link other(rtnl_link_veth_get_peer(link.get()));
    rtnl_link_set_name(other.get(), peer);
    rtnl_link_set_ns_fd(other.get(), peer_namespace.get());
  }
  check_nl(rtnl_link_add(impl_->socket.get(), link.get(), NLM_F_CREATE | NLM_F_EXCL),
           "rtnl_link_add", name);
}

void Rtnl::add_address(const char* name, std::uint32_t local, std::uint32_t peer) {
  const Address address = allocated(Address(rtnl_addr_alloc()), "rtnl_addr_alloc");
  rtnl_addr_set_ifindex(address.get(), index_of(name));
  const NlAddress own = make_address(local);
  const NlAddress other = make_address(peer);
  check_nl(rtnl_addr_set_local(address.get(), own.get()), "rtnl_addr_set_local", name);
  check_nl(rtnl_addr_set_peer(address.get(), other.get()), "rtnl_addr_set_peer", name);
  rtnl_addr_set_prefixlen(address.get(), host_prefix);
  check_nl(rtnl_addr_add(impl_->socket.get(), address.get(), 0), "rtnl_addr_add", name);
}

void Rtnl::bring_up(const char* name) {
  const Link link = allocated(Link(rtnl_link_alloc()), "rtnl_link_alloc");
  rtnl_link_set_ifindex(link.get(), index_of(name));
  const Link change = allocated(Link(rtnl_link_alloc()), "rtnl_link_alloc");
  rtnl_link_set_flags(change.get(), IFF_UP);
  check_nl(rtnl_link_change(impl_->socket.get(), link.get(), change.get(), 0), "rtnl_link_change",
           name);
}

}  // namespace daiv::netns
