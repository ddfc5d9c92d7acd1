#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>

#include <chrono>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "proxy/host_name.hpp"

namespace daiv::proxy {

struct ExtraHost;
class OutboundSockets;

// How name servers are found and reached.
struct LookupWays {
  std::string servers;        // "ADDRESS:PORT,…", in place of those of a file; for tests
  std::string resolver_file;  // in place of /etc/resolv.conf where it exists; empty: none
  std::shared_ptr<OutboundSockets> sockets;  // null: sockets of one's own; shared with the dialer
};

struct LookupFault {
  enum class Kind { failed, timed_out } kind = Kind::failed;
  std::string text;
};

using Lookup = std::expected<std::vector<boost::asio::ip::address>, LookupFault>;

// Addresses of names: the extra hosts', else look_up()'s (proxy/dns_lookup.hpp) on threads of its
// own, kept as long as they hold and the network that they are asked in is the same. Confined to
// `executor`'s thread.
class Resolver {
public:
  Resolver(boost::asio::any_io_executor executor, const std::vector<ExtraHost>& extra_hosts,
           LookupWays ways);
  ~Resolver();  // waits for look-ups that run
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // A literal is its own answer. Never empty where it is a value.
  boost::asio::awaitable<Lookup> resolve(HostName host,
                                         std::chrono::steady_clock::time_point until);

private:
  struct State;
  std::shared_ptr<State> state_;  // shared with look-ups whose answer nobody waits for any more
};

}  // namespace daiv::proxy
