#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/channel.hpp"
#include "proxy/egress_proxy.hpp"
#include "proxy/idle_upstreams.hpp"
#include "proxy/leaf_cache.hpp"
#include "proxy/request_target.hpp"
#include "proxy/resolver.hpp"
#include "proxy/synthetic_names.hpp"
#include "proxy/tls_context.hpp"

// What connections share. All of it is confined to the proxy's thread.
namespace daiv::proxy {

inline constexpr std::size_t piece_bytes = 64U << 10;       // read at a time
inline constexpr std::size_t small_piece_bytes = 4U << 10;  // where the session's buffers are full
// What a stream that is read in pieces holds: as received, without framing, in new framing.
inline constexpr std::size_t stream_buffer_bytes = 3 * piece_bytes;

// All sessions.
struct ProxyCore {
  ProxyCore(EgressSettings its_settings, EgressProxy::DecisionLog its_log,
            boost::asio::any_io_executor its_executor, boost::asio::thread_pool& its_pool)
      : settings(std::move(its_settings)),
        log(std::move(its_log)),
        executor(std::move(its_executor)),
        pool(its_pool),
        resolver(executor, settings.extra_hosts,
                 {settings.name_servers, settings.resolver_file, settings.outbound}),
        trust(settings.upstream_ca_file) {}

  EgressSettings settings;
  EgressProxy::DecisionLog log;
  boost::asio::any_io_executor executor;
  boost::asio::thread_pool& pool;
  Resolver resolver;
  TrustStore trust;
  LeafCache leaves;
  EgressCounters counters;
  std::vector<char> scratch = std::vector<char>(piece_bytes);
};

// A relay of bytes that are not judged any more: cut where a new policy would not have let it
// begin.
struct OpenTunnel {
  Authority authority;
  std::optional<std::string> method;               // of the request that became a WebSocket
  boost::asio::ip::address address;                // the origin's
  std::shared_ptr<const OutboundNetwork> network;  // as Upstream's
  Channel* client = nullptr;
  Channel* upstream = nullptr;
};

// One session. Shared by the proxy and the session's connections, which end after a remove().
struct ProxiedSession {
  ProxiedSession(std::string its_id, ProxyCore& core, Policy its_policy)
      : id(std::move(its_id)),
        policy(std::make_shared<const Policy>(std::move(its_policy))),
        channels(core.scratch),
        upstream_tls(core.trust),
        names(core.settings.synthetic_pool) {}

  std::string id;
  // Shared with the requests that are judged by it: it stays whole while they hold its rules.
  std::shared_ptr<const Policy> policy;
  std::uint64_t policy_number = 0;  // how often it was replaced
  ChannelSet channels;
  ClientTls client_tls;
  UpstreamTls upstream_tls;
  IdleUpstreams idle;
  SyntheticNames names;  // that its resolver has told
  std::list<OpenTunnel> tunnels;
  std::size_t connections = 0;
  std::size_t buffered_bytes = 0;
  bool removed = false;

  // For the next request, where neither the session nor the policy that it was made under has ended
  // meanwhile.
  void keep_idle(Upstream upstream) {
    if (!removed && upstream.policy_number == policy_number) idle.keep(std::move(upstream));
  }
};

// A share of a session's buffers, given back at the end.
class BufferShare {
public:
  BufferShare(const ProxyCore& core, ProxiedSession& session, std::size_t bytes)
      : session_(session),
        granted_(session.buffered_bytes + bytes <= core.settings.max_buffer_bytes ? bytes : 0) {
    session_.buffered_bytes += granted_;
  }
  ~BufferShare() { session_.buffered_bytes -= granted_; }
  BufferShare(const BufferShare&) = delete;
  BufferShare& operator=(const BufferShare&) = delete;

  [[nodiscard]] bool granted() const noexcept { return granted_ > 0; }
  [[nodiscard]] std::size_t piece() const noexcept {
    return granted() ? piece_bytes : small_piece_bytes;
  }

private:
  ProxiedSession& session_;
  std::size_t granted_;
};

// An entry of ProxiedSession::tunnels.
class TunnelEntry {
public:
  TunnelEntry(ProxiedSession& session, OpenTunnel tunnel)
      : session_(session),
        entry_(session.tunnels.insert(session.tunnels.end(), std::move(tunnel))) {}
  ~TunnelEntry() { session_.tunnels.erase(entry_); }
  TunnelEntry(const TunnelEntry&) = delete;
  TunnelEntry& operator=(const TunnelEntry&) = delete;

private:
  ProxiedSession& session_;
  std::list<OpenTunnel>::iterator entry_;
};

// Whether connections leave `network` now: one that was made anew under its name is another.
bool is_present(const ProxyCore& core, const OutboundNetwork* network);

// The address verdict of the settings, for a connection that leaves `network` (null: the host's).
AddressVerdict judge(const ProxyCore& core, const boost::asio::ip::address& address,
                     const Rule* rule, const OutboundNetwork* network);

}  // namespace daiv::proxy
