#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>

#include <memory>

#include "proxy/proxied_session.hpp"

// The resolver of transparent mode on its sockets.
namespace daiv::proxy {

// Answers until the socket is closed.
boost::asio::awaitable<void> serve_name_datagrams(
    std::shared_ptr<ProxiedSession> session, std::shared_ptr<boost::asio::ip::udp::socket> socket);

// Serves one connection (RFC 7766) until either side ends it.
boost::asio::awaitable<void> serve_name_connection(std::shared_ptr<ProxiedSession> session,
                                                   boost::asio::ip::tcp::socket socket);

}  // namespace daiv::proxy
