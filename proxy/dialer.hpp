#pragma once

#include <boost/asio/awaitable.hpp>

#include <expected>
#include <memory>
#include <string>

#include "proxy/proxied_session.hpp"
#include "proxy/upstream.hpp"

namespace daiv::proxy {

// Why no connection was made: the answer's status (403, 502 or 504) and a text for a person.
struct DialFault {
  int status = 502;
  std::string text;
};

// Connects to `authority`: looks the name up, judges every address under `rule` (null: the
// default), tries those that may be connected to in order, and for https verifies the origin and
// lets it choose among `protocols`.
// Borrows `rule` until it returns.
boost::asio::awaitable<std::expected<Upstream, DialFault>> dial(
    std::shared_ptr<ProxyCore> core, std::shared_ptr<ProxiedSession> session, Authority authority,
    Scheme scheme, const Rule* rule, Protocols protocols);

}  // namespace daiv::proxy
