#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>

#include "proxy/request_exchange.hpp"

namespace daiv::proxy {

// Serves one connection of a session's sandbox until either side ends it.
boost::asio::awaitable<void> serve_client(std::shared_ptr<ProxyCore> core,
                                          std::shared_ptr<ProxiedSession> session,
                                          boost::asio::ip::tcp::socket socket);

}  // namespace daiv::proxy
