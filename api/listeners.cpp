#include "api/listeners.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>

#include "os/error.hpp"
#include "os/unique_fd.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int backlog = 1024;
constexpr mode_t local_mode = 0660;

int socket_option(const os::UniqueFd& socket, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  os::check(::getsockopt(socket.get(), SOL_SOCKET, option, &value, &size), "getsockopt",
            fmt::format("descriptor {}", socket.get()));
  return value;
}

template <typename AnyAcceptor, typename Protocol>
AnyAcceptor assign(os::UniqueFd socket, const Protocol& protocol,
                   const asio::any_io_executor& executor) {
  AnyAcceptor acceptor(executor);
  acceptor.assign(protocol, socket.get());
  static_cast<void>(socket.release());
  return acceptor;
}

}  // namespace

TcpAcceptor listen_tcp(const std::string& host, std::uint16_t port,
                       const asio::any_io_executor& executor) {
  tcp::resolver resolver(executor);  // blocks; before anything is served
  const auto found = resolver.resolve(host, std::to_string(port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service);
  const tcp::endpoint endpoint = *found.begin();
  TcpAcceptor acceptor(executor, endpoint.protocol());
  acceptor.set_option(TcpAcceptor::reuse_address(true));
  acceptor.bind(endpoint);
  acceptor.listen(backlog);
  return acceptor;
}

LocalAcceptor listen_local(const std::string& path, const asio::any_io_executor& executor) {
  const LocalProtocol::endpoint endpoint(path);
  LocalProtocol::socket probe(executor);
  boost::system::error_code error;
  probe.connect(endpoint, error);
  struct stat status{};
  // A file that is no socket refuses as well (connect(2)).
  if (error == asio::error::connection_refused && ::lstat(path.c_str(), &status) == 0 &&
      S_ISSOCK(status.st_mode))
    ::unlink(path.c_str());
  LocalAcceptor acceptor(executor, endpoint.protocol());
  acceptor.bind(endpoint);
  // Nobody can connect before listen(2), so that the mode of bind(2) is never in effect.
  os::check(::chmod(path.c_str(), local_mode), "chmod", path);
  acceptor.listen(backlog);
  return acceptor;
}

Acceptor adopt_listener(int fd, const asio::any_io_executor& executor) {
  os::UniqueFd socket(fd);
  if (socket_option(socket, SO_TYPE) != SOCK_STREAM || socket_option(socket, SO_ACCEPTCONN) == 0)
    throw std::runtime_error(fmt::format("descriptor {} is no listening stream socket", fd));
  os::check(::fcntl(fd, F_SETFD, FD_CLOEXEC), "fcntl", "listening socket");
  const int family = socket_option(socket, SO_DOMAIN);
  if (family == AF_INET) return assign<TcpAcceptor>(std::move(socket), tcp::v4(), executor);
  if (family == AF_INET6) return assign<TcpAcceptor>(std::move(socket), tcp::v6(), executor);
  if (family == AF_UNIX) return assign<LocalAcceptor>(std::move(socket), LocalProtocol(), executor);
  throw std::runtime_error(
      fmt::format("descriptor {}: sockets of address family {} are not served", fd, family));
}

}  // namespace daiv::api
