#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <cstdint>
#include <string>
#include <variant>

// The sockets that the server accepts from. All of it throws std::runtime_error, which boost's and
// std's system_error are.
namespace daiv::api {

using LocalProtocol = boost::asio::local::stream_protocol;
using TcpAcceptor = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp>;
using LocalAcceptor = boost::asio::basic_socket_acceptor<LocalProtocol>;
using Acceptor = std::variant<TcpAcceptor, LocalAcceptor>;

// `host` may be a name as well as an address.
TcpAcceptor listen_tcp(const std::string& host, std::uint16_t port,
                       const boost::asio::any_io_executor& executor);

// Mode 0660: the daemon's user and its group may connect. A socket file that a former run left
// behind is replaced; one that somebody listens on, and what is no socket, is not.
LocalAcceptor listen_local(const std::string& path, const boost::asio::any_io_executor& executor);

// Takes over a socket that listens already, as of socket activation (sd_listen_fds(3)): a stream
// socket of AF_INET, AF_INET6 or AF_UNIX. Owns `fd` from the call on.
Acceptor adopt_listener(int fd, const boost::asio::any_io_executor& executor);

}  // namespace daiv::api
