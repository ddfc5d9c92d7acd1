#include "api/server.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <optional>
#include <thread>
#include <type_traits>

#include "api/connection.hpp"
#include "api/connection_set.hpp"
#include "api/listeners.hpp"
#include "api/measured_sessions.hpp"
#include "api/socket_stream.hpp"
#include "api/tls_credentials.hpp"
#include "api/tls_stream.hpp"
#include "sessions/on_pool.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::chrono::milliseconds accept_pause{100};  // after a failed accept, such as EMFILE

// Large bodies are converted so many at a time: each keeps a processor busy.
std::size_t large_body_threads() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, 8);
}

void prepare(tcp::socket& socket) {
  boost::system::error_code ignored;  // the peer may have gone again
  socket.set_option(tcp::no_delay(true), ignored);
}
void prepare(LocalProtocol::socket&) {}

}  // namespace

class Server::Impl {
public:
  Impl(ServerSettings settings, sessions::SessionService& service,
       const asio::any_io_executor& executor, asio::thread_pool& pool, Extensions extensions)
      : settings_(std::move(settings)),
        extensions_(std::move(extensions)),
        sessions_(service, operations_),
        bodies_(settings_.limits.max_buffered_body_bytes),
        context_{settings_, sessions_,   pool,        large_bodies_,
                 metrics_,  operations_, extensions_, bodies_},
        connections_(executor),
        tasks_(executor) {
    if (settings_.tls) credentials_.emplace(*settings_.tls);
    if (settings_.port) acceptors_.push_back(listen_tcp(settings_.host, *settings_.port, executor));
    if (!settings_.unix_socket.empty())
      acceptors_.push_back(listen_local(settings_.unix_socket, executor));
    for (const int fd : settings_.listener_fds) acceptors_.push_back(adopt_listener(fd, executor));
  }

  ~Impl() {
    if (!settings_.unix_socket.empty()) ::unlink(settings_.unix_socket.c_str());
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  asio::awaitable<void> run() {
    for (Acceptor& acceptor : acceptors_)
      std::visit([this](auto& one) { tasks_.spawn([&](bool&) { return accept_all(one); }); },
                 acceptor);
    if (credentials_) tasks_.spawn([this](bool&) { return watch_credentials(); });
    co_await tasks_.join();
    co_await drain();
  }

  void stop() {
    lifecycle_.stopping = true;
    boost::system::error_code ignored;  // closing is all that is left to do
    for (Acceptor& acceptor : acceptors_)
      std::visit([&](auto& one) { one.close(ignored); }, acceptor);
    tasks_.cancel(ConnectionSet::Which::all);
    connections_.cancel(ConnectionSet::Which::idle);
  }

  [[nodiscard]] std::uint16_t port() const {
    for (const Acceptor& acceptor : acceptors_)
      if (const auto* found = std::get_if<TcpAcceptor>(&acceptor))
        return found->local_endpoint().port();
    return 0;
  }

private:
  enum class Transport { network, local };

  template <typename AnyAcceptor>
  asio::awaitable<void> accept_all(AnyAcceptor& acceptor) {
    while (!lifecycle_.stopping) {
      if (connections_.size() >= settings_.limits.max_connections) {
        co_await connections_.wait_for_one();
        continue;
      }
      auto [error, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
      if (lifecycle_.stopping) break;
      if (error) {
        spdlog::warn("accept: {}", error.message());
        co_await pause();
        continue;
      }
      prepare(socket);
      serve<typename AnyAcceptor::protocol_type>(std::move(socket));
    }
  }

  asio::awaitable<void> pause() {
    asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, accept_pause);
    co_await timer.async_wait(asio::use_awaitable);
  }

  template <typename Protocol>
  void serve(asio::basic_stream_socket<Protocol> socket) {
    auto stream = std::make_unique<SocketStream<Protocol>>(std::move(socket));
    constexpr Transport kind =
        std::is_same_v<Protocol, tcp> ? Transport::network : Transport::local;
    connections_.spawn(
        [this, &stream](bool& busy) { return serve_one(std::move(stream), kind, busy); });
  }

  asio::awaitable<void> serve_one(std::unique_ptr<Stream> stream, Transport kind, bool& busy) {
    metrics_.connection_opened();
    const std::unique_ptr<Metrics, void (*)(Metrics*)> open(
        &metrics_, [](Metrics* metrics) { metrics->connection_closed(); });
    // Whoever is on this host and may open the socket's file needs no TLS.
    if (credentials_ && kind == Transport::network) {
      auto secured = std::make_unique<TlsStream>(std::move(stream), credentials_->current());
      const TlsStream::Handshake outcome =
          co_await secured->handshake(settings_.timeouts.tls_handshake);
      if (outcome == TlsStream::Handshake::failed) {
        metrics_.handshake_failed();
        co_return;
      }
      stream = std::move(secured);
    }
    co_await serve_connection(std::move(stream), context_, lifecycle_, busy);
  }

  asio::awaitable<void> watch_credentials() {
    asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor);
    while (!lifecycle_.stopping) {
      timer.expires_after(settings_.timeouts.tls_poll);
      co_await timer.async_wait(asio::use_awaitable);
      co_await sessions::on_pool(context_.pool, [this] { credentials_->poll(); });
    }
  }

  asio::awaitable<void> drain() {
    connections_.cancel(ConnectionSet::Which::idle);
    asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, settings_.timeouts.drain);
    auto group = asio::experimental::make_parallel_group(
        asio::co_spawn(executor, connections_.join(), asio::deferred),
        timer.async_wait(asio::deferred));
    auto [order, error, timer_error] =
        co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    if (error && order[0] == 0) std::rethrow_exception(error);
    connections_.cancel(ConnectionSet::Which::all);
    co_await connections_.join();
  }

  ServerSettings settings_;
  Extensions extensions_;
  Metrics metrics_;
  OperationMetrics operations_;
  MeasuredSessions sessions_;
  BodyBudget bodies_;
  asio::thread_pool large_bodies_{large_body_threads()};
  Context context_;
  Lifecycle lifecycle_;
  ConnectionSet connections_;
  ConnectionSet tasks_;  // those that accept, and the one that watches the certificate
  std::optional<TlsCredentials> credentials_;
  std::list<Acceptor> acceptors_;
};

Server::Server(ServerSettings settings, sessions::SessionService& service,
               asio::any_io_executor executor, asio::thread_pool& pool, Extensions extensions)
    : impl_(std::make_unique<Impl>(std::move(settings), service, executor, pool,
                                   std::move(extensions))) {}
Server::~Server() = default;

// Not `return impl_->run()`: the frame must be made here, where it is awaited.
asio::awaitable<void> Server::run() { co_await impl_->run(); }
void Server::stop() { impl_->stop(); }
std::uint16_t Server::port() const { return impl_->port(); }

}  // namespace daiv::api
