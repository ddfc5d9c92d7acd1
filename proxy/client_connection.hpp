#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>

#include "proxy/request_exchange.hpp"

namespace daiv::proxy {

// How a connection came: to the proxy itself, or, in transparent mode, to a port of the web on an
// address that the sandbox took for an origin's.
enum class Arrival { proxy, http, https };

// Serves one connection of a session's sandbox until either side ends it.
boost::asio::awaitable<void> serve_client(std::shared_ptr<ProxyCore> core,
                                          std::shared_ptr<ProxiedSession> session,
                                          boost::asio::ip::tcp::socket socket, Arrival arrival);

}  // namespace daiv::proxy
