#include "netns/rtnl.hpp"

#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/route.h>
#include <netlink/route/rule.h>

#include <cerrno>
#include <string>
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
    case NLE_AF_NOSUPPORT:
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
using Route = std::unique_ptr<rtnl_route, Release<rtnl_route_put>>;
using Rule = std::unique_ptr<rtnl_rule, Release<rtnl_rule_put>>;
using Cache = std::unique_ptr<nl_cache, Release<nl_cache_free>>;

template <typename Owner>
Owner allocated(Owner owner, const char* call) {
  if (!owner) throw os::Error(ENOMEM, call, "libnl");
  return owner;
}

NlAddress make_address(std::uint32_t address, int prefix = host_prefix) {
  const in_addr bytes{htonl(address)};
  NlAddress made =
      allocated(NlAddress(nl_addr_build(AF_INET, &bytes, sizeof bytes)), "nl_addr_build");
  nl_addr_set_prefixlen(made.get(), prefix);
  return made;
}

int index_of(const char* name) {
  const unsigned index = ::if_nametoindex(name);
  if (index == 0) os::throw_errno("if_nametoindex", name);
  return static_cast<int>(index);
}

// A route of the main table to all addresses over one interface.
Route make_default_route(const char* name, std::uint8_t type, std::uint8_t scope,
                         const nl_addr* gateway) {
  Route route = allocated(Route(rtnl_route_alloc()), "rtnl_route_alloc");
  rtnl_route_set_family(route.get(), AF_INET);
  rtnl_route_set_table(route.get(), RT_TABLE_MAIN);
  rtnl_route_set_scope(route.get(), scope);
  const NlAddress everywhere = make_address(0, 0);
  check_nl(rtnl_route_set_dst(route.get(), everywhere.get()), "rtnl_route_set_dst", name);
  check_nl(rtnl_route_set_type(route.get(), type), "rtnl_route_set_type", name);
  rtnl_nexthop* hop = rtnl_route_nh_alloc();
  if (hop == nullptr) throw os::Error(ENOMEM, "rtnl_route_nh_alloc", name);
  rtnl_route_add_nexthop(route.get(), hop);  // the route owns it now
  rtnl_route_nh_set_ifindex(hop, index_of(name));
  if (gateway != nullptr) rtnl_route_nh_set_gateway(hop, const_cast<nl_addr*>(gateway));
  return route;
}

// The kernel's default is one queue in use of as many as there are processors; taking the others
// out of use costs a grace period of RCU for each end (drivers/net/veth.c, veth_init_queues).
void set_one_queue(rtnl_link* link) {
  rtnl_link_set_num_tx_queues(link, 1);
  rtnl_link_set_num_rx_queues(link, 1);
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
  set_one_queue(link.get());
  {
    const Link other(rtnl_link_veth_get_peer(link.get()));
    rtnl_link_set_name(other.get(), peer);
    set_one_queue(other.get());
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

void Rtnl::add_default_route(const char* name, std::uint32_t gateway) {
  const NlAddress next = make_address(gateway);
  const Route route = make_default_route(name, RTN_UNICAST, RT_SCOPE_UNIVERSE, next.get());
  check_nl(rtnl_route_add(impl_->socket.get(), route.get(), NLM_F_EXCL), "rtnl_route_add", name);
}

void Rtnl::add_local_default_route(const char* name) {
  const Route route = make_default_route(name, RTN_LOCAL, RT_SCOPE_HOST, nullptr);
  check_nl(rtnl_route_add(impl_->socket.get(), route.get(), NLM_F_EXCL), "rtnl_route_add", name);
}

void Rtnl::add_rule(const RouteRule& rule) {
  const Rule made = allocated(Rule(rtnl_rule_alloc()), "rtnl_rule_alloc");
  const bool found = rule.verdict == RouteRule::Verdict::routed;
  rtnl_rule_set_family(made.get(), AF_INET);
  rtnl_rule_set_prio(made.get(), rule.priority);
  rtnl_rule_set_action(made.get(), found ? FR_ACT_TO_TBL : FR_ACT_UNREACHABLE);
  if (found) rtnl_rule_set_table(made.get(), RT_TABLE_MAIN);
  if (rule.to) {
    const NlAddress to = make_address(rule.to->address, rule.to->prefix);
    check_nl(rtnl_rule_set_dst(made.get(), to.get()), "rtnl_rule_set_dst", "rule");
  }
  if (rule.tcp_port != 0) {
    check_nl(rtnl_rule_set_ipproto(made.get(), IPPROTO_TCP), "rtnl_rule_set_ipproto", "rule");
    check_nl(rtnl_rule_set_dport(made.get(), rule.tcp_port), "rtnl_rule_set_dport", "rule");
  }
  check_nl(rtnl_rule_add(impl_->socket.get(), made.get(), NLM_F_CREATE | NLM_F_EXCL),
           "rtnl_rule_add", std::to_string(rule.priority));
}

bool Rtnl::has_rules() {
  nl_cache* listed = nullptr;
  const int result = rtnl_rule_alloc_cache(impl_->socket.get(), AF_INET, &listed);
  const Cache owner(listed);
  if (result == -NLE_OPNOTSUPP || result == -NLE_AF_NOSUPPORT) return false;
  check_nl(result, "rtnl_rule_alloc_cache", "rules");
  return true;
}

}  // namespace daiv::netns
