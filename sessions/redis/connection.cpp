#include "sessions/redis/connection.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace daiv::sessions::redis {

struct Connector::Trust {
  asio::ssl::context context{asio::ssl::context::tls_client};
};

namespace {

template <typename Stream>
class StreamConnection : public Connection {
public:
  explicit StreamConnection(Stream stream) : stream_(std::move(stream)) {}
  Stream& stream() { return stream_; }

  asio::awaitable<Reply> exchange(std::vector<std::string> command) override {
    const std::string bytes = encode_command(command);
    co_await asio::async_write(stream_, asio::buffer(bytes), asio::use_awaitable);
    for (;;) {
      std::optional<Reply> reply = reader_.next();
      if (reply) co_return std::move(*reply);
      const std::size_t count =
          co_await stream_.async_read_some(asio::buffer(buffer_), asio::use_awaitable);
      reader_.feed({buffer_.data(), count});
    }
  }

  // A socket without anything to read, not even its end (recv(2)).
  [[nodiscard]] bool is_quiet() override {
    char byte = 0;
    const auto count =
        ::recv(stream_.lowest_layer().native_handle(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }

private:
  Stream stream_;
  ReplyReader reader_;
  std::array<char, 4096> buffer_{};
};

asio::awaitable<tcp::socket> reach(Url url) {
  auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  const std::string port = std::to_string(url.port);
  const auto found = co_await resolver.async_resolve(url.host, port, asio::use_awaitable);
  tcp::socket socket(executor);
  co_await asio::async_connect(socket, found, asio::use_awaitable);
  socket.set_option(tcp::no_delay(true));
  co_return socket;
}

using TlsStream = asio::ssl::stream<tcp::socket>;

asio::awaitable<std::unique_ptr<Connection>> secure(tcp::socket socket, asio::ssl::context& context,
                                                    std::string host) {
  TlsStream stream(std::move(socket), context);
  boost::system::error_code is_name;
  asio::ip::make_address(host, is_name);
  // Addresses are not sent as a server name (RFC 6066 §3). The macro SSL_set_tlsext_host_name()
  // (its manual page) written out, for its cast.
  if (is_name && SSL_ctrl(stream.native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME,
                          TLSEXT_NAMETYPE_host_name, host.data()) != 1)
    throw RedisError("Redis: the host is no name that TLS can carry");
  stream.set_verify_mode(asio::ssl::verify_peer);
  stream.set_verify_callback(asio::ssl::host_name_verification(host));
  co_await stream.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
  co_return std::make_unique<StreamConnection<TlsStream>>(std::move(stream));
}

asio::awaitable<void> demand(Connection& connection, std::vector<std::string> command) {
  const std::string name = command.front();
  const Reply reply = co_await connection.exchange(std::move(command));
  if (reply.kind != Reply::Kind::text)
    throw RedisError(fmt::format("Redis: {} is refused: {}", name, reply.text));
}

}  // namespace

Connector::Connector(Url url) : url_(std::move(url)) {
  if (url_.tls == Tls::off) return;
  trust_ = std::make_unique<Trust>();
  boost::system::error_code error;
  if (url_.ca_file.empty()) {
    trust_->context.set_default_verify_paths(error);
  } else {
    trust_->context.load_verify_file(url_.ca_file, error);
  }
  if (error)
    throw RedisError(fmt::format("Redis: can't read the certificates to trust{}{}: {}",
                                 url_.ca_file.empty() ? "" : " in ", url_.ca_file,
                                 error.message()));
  SSL_CTX_set_min_proto_version(trust_->context.native_handle(), TLS1_2_VERSION);
}

Connector::~Connector() = default;

asio::awaitable<std::unique_ptr<Connection>> Connector::connect() {
  tcp::socket socket = co_await reach(url_);
  std::unique_ptr<Connection> connection;
  if (trust_) {
    connection = co_await secure(std::move(socket), trust_->context, url_.host);
  } else {
    connection = std::make_unique<StreamConnection<tcp::socket>>(std::move(socket));
  }
  if (!url_.password.empty()) {
    std::vector<std::string> login{"AUTH"};
    if (!url_.user.empty()) login.push_back(url_.user);
    login.push_back(url_.password);
    co_await demand(*connection, std::move(login));
  }
  if (url_.database != 0) {
    std::vector<std::string> choice{"SELECT", std::to_string(url_.database)};
    co_await demand(*connection, std::move(choice));
  }
  co_return connection;
}

}  // namespace daiv::sessions::redis
