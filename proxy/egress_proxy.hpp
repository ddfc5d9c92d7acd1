#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "os/unique_fd.hpp"
#include "proxy/address_class.hpp"
#include "proxy/certificate_authority.hpp"
#include "proxy/host_name.hpp"
#include "proxy/outbound_sockets.hpp"
#include "proxy/policy.hpp"

namespace daiv::proxy {

// A name that is known without asking a name server (DAIV_SANDBOX_EGRESS_EXTRA_HOSTS). Several
// entries of one name are several addresses. The address is judged like any other.
struct ExtraHost {
  HostName host;
  boost::asio::ip::address address;
};

enum class PlaintextInjection { allowed, refused };

struct EgressTimeouts {
  std::chrono::milliseconds connect{10'000};  // for one address
  std::chrono::milliseconds dial{25'000};     // look-up, all addresses and TLS: 504 above
  std::chrono::milliseconds head{30'000};     // from a head's first byte to its last; a handshake
  std::chrono::milliseconds idle{120'000};    // a client that sends no further request
  std::chrono::milliseconds answer{600'000};  // an origin that has the request and says nothing
  std::chrono::milliseconds body{900'000};    // neither side sends or takes a byte of a body
  std::chrono::milliseconds tunnel{14'400'000};  // no byte either way
};

struct EgressSettings {
  std::shared_ptr<const CertificateAuthority> authority;  // never null; shared with who replaces it
  std::vector<ExtraHost> extra_hosts;
  // Asked in place of /etc/resolv.conf's: "ADDRESS:PORT,…", for tests. Nothing that reads settings
  // fills it.
  std::string name_servers;
  std::string upstream_ca_file;  // trusted beside the system's store; empty: none
  PlaintextInjection plaintext_injection = PlaintextInjection::allowed;
  std::size_t max_buffer_bytes = 64U << 20;  // of all connections of one session
  std::size_t max_connections = 1000;        // of one session; more are answered 503 and closed
  EgressTimeouts timeouts;
  // First of 65,536 addresses that stand for names in transparent mode (IPv4, host byte order).
  std::uint32_t synthetic_pool = 0x64700000;
  // Whether an address is this host's or a session's own: only a rule with that literal opens it.
  std::function<bool(const boost::asio::ip::address&)> is_own_address;
  // Endpoints that no rule opens: the daemon's own API, the proxies' listeners. Empty: none.
  std::function<bool(const boost::asio::ip::tcp::endpoint&)> is_closed_endpoint;
  std::string outbound_interface;  // SO_BINDTODEVICE for connections to origins; empty: any
  // Where sockets to origins and name servers come from; null: they are the front's own.
  std::shared_ptr<OutboundSockets> outbound;  // shared with look-ups, on threads of their own
  std::string resolver_file;  // in place of /etc/resolv.conf where it exists; empty: none
  // In place of judge_address() with is_own_address, where it is set: for origins on loopback in
  // tests. Nothing that reads settings fills it.
  std::function<AddressVerdict(const boost::asio::ip::address&, const Rule*)> address_judge;
};

// One line for the operator, made when a request or a tunnel is over. Never holds a header's value.
struct Decision {
  enum class Kind { request, tunnel, connect };
  std::string session;
  Kind kind = Kind::request;  // connect: a CONNECT that was refused
  std::string host;           // as policies compare it; what was sent where it is no host
  std::uint16_t port = 0;
  std::string method;
  bool allowed = false;
  bool injected = false;
  int status = 0;      // the answer's; 0 where there was none
  std::string reason;  // for a person
  std::string rule;    // the rule's host as it was written; empty: the default
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::chrono::microseconds duration{0};
};

struct EgressCounters {
  std::uint64_t connections = 0;       // accepted
  std::uint64_t open_connections = 0;  // a gauge
  std::uint64_t refused_connections = 0;
  std::uint64_t requests_allowed = 0;
  std::uint64_t requests_denied = 0;
  std::uint64_t tunnels = 0;
  std::uint64_t tunnels_cut = 0;  // by their SNI or a new policy
  std::uint64_t handshakes = 0;   // TLS with clients
  std::uint64_t certificates = 0;
  std::uint64_t upstream_failures = 0;  // answered 502 or 504
  std::uint64_t injections = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
};

// What transparent mode is served on, beside the proxy's own listener: all of them or none.
struct TransparentSockets {
  os::UniqueFd http;   // listens on port 80 of every address
  os::UniqueFd https;  // on port 443
  os::UniqueFd names;  // UDP, port 53 of the proxy's address
  os::UniqueFd name_streams;
};

// The proxy of all sessions: HTTP/1, CONNECT tunnels, interception, credentials. All of it, the
// callbacks included, runs on `executor`'s one thread, and every member is called there. Making
// certificates runs on `pool`; name look-ups on threads of its own, since a name server that keeps
// quiet holds them. Connections to origins belong to one client connection and are never shared.
class EgressProxy {
public:
  using DecisionLog = std::function<void(const Decision&)>;

  // Reads the trust store. Throws std::runtime_error where upstream_ca_file can't be read.
  EgressProxy(EgressSettings settings, DecisionLog log, boost::asio::any_io_executor executor,
              boost::asio::thread_pool& pool);
  ~EgressProxy();  // as if remove() were called for all sessions
  EgressProxy(const EgressProxy&) = delete;
  EgressProxy& operator=(const EgressProxy&) = delete;

  // Serves `listeners` (bound and listening TCP sockets, of any network namespace) for a session.
  // Ready when it returns. A session that is served already has its sockets and policy replaced.
  void add(const std::string& session, std::vector<os::UniqueFd> listeners, Policy policy,
           TransparentSockets transparent = {});

  // Sets the policy: it holds for the next request of each connection, and tunnels and WebSockets
  // that it denies are cut before this returns. False: the session is not served.
  bool update(const std::string& session, Policy policy);

  // Closes the listeners and cuts every connection. Nothing where it is not served.
  void remove(const std::string& session);

  [[nodiscard]] bool serves(const std::string& session) const;

  // For connections from now on; certificates of the old one are forgotten.
  void replace_authority(std::shared_ptr<const CertificateAuthority> authority);

  [[nodiscard]] EgressCounters counters() const;

  // Removes all sessions and returns when no connection is left.
  boost::asio::awaitable<void> stop();

private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with connections, which end after it
};

}  // namespace daiv::proxy
