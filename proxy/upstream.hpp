#pragma once

#include <boost/asio/ip/address.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "proxy/channel.hpp"
#include "proxy/outbound_sockets.hpp"
#include "proxy/request_target.hpp"
#include "proxy/tls_context.hpp"

namespace daiv::proxy {

// A connection to an origin. `received` are bytes that came from it and are not used yet.
struct Upstream {
  Authority authority;
  Scheme scheme = Scheme::http;
  std::string credential;  // the rule's secret; a connection that has carried one takes no other
  std::uint64_t policy_number =
      0;  // of the policy it was made under, which says what the secret is
  boost::asio::ip::address address;
  std::shared_ptr<const OutboundNetwork> network = nullptr;  // that it leaves; null: the host's
  std::unique_ptr<Channel> channel;
  std::string received;
  bool used = false;  // for a whole exchange
  Protocol protocol = Protocol::http1;
  Protocols offered = Protocols::http1;  // what the origin could choose from
  std::chrono::steady_clock::time_point idle_since;
};

}  // namespace daiv::proxy
