#include "api/server.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <optional>

#include "api/connection.hpp"
#include "api/connection_set.hpp"
#include "api/socket_stream.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Local = asio::local::stream_protocol;
using TcpAcceptor = asio::basic_socket_acceptor<tcp>;
using LocalAcceptor = asio::basic_socket_acceptor<Local>;

constexpr int backlog = 1024;
constexpr std::chrono::milliseconds accept_pause{100};  // after a failed accept, such as EMFILE

void prepare(tcp::socket& socket) {
  boost::system::error_code ignored;  // the peer may have gone again
  socket.set_option(tcp::no_delay(true), ignored);
}
void prepare(Local::socket&) {}

TcpAcceptor listen_tcp(const ServerSettings& settings, const asio::any_io_executor& executor) {
  if (settings.listener_fd) {
    TcpAcceptor adopted(executor);
    adopted.assign(tcp::v4(), *settings.listener_fd);
    return adopted;
  }
  // A name as well as an address; done once, before anything is served.
  tcp::resolver resolver(executor);
  const auto found = resolver.resolve(settings.host, std::to_string(*settings.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service);
  const tcp::endpoint endpoint = *found.begin();
  TcpAcceptor acceptor(executor, endpoint.protocol());
  acceptor.set_option(TcpAcceptor::reuse_address(true));
  acceptor.bind(endpoint);
  acceptor.listen(backlog);
  return acceptor;
}

// A socket file that a former run left behind is replaced; one that somebody listens on is not.
LocalAcceptor listen_local(const std::string& path, const asio::any_io_executor& executor) {
  const Local::endpoint endpoint(path);
  Local::socket probe(executor);
  boost::system::error_code error;
  probe.connect(endpoint, error);
  if (error == asio::error::connection_refused) ::unlink(path.c_str());
  LocalAcceptor acceptor(executor, endpoint.protocol());
  acceptor.bind(endpoint);
  acceptor.listen(backlog);
  return acceptor;
}

}  // namespace

class Server::Impl {
public:
  Impl(ServerSettings settings, sessions::SessionService& service,
       const asio::any_io_executor& executor, asio::thread_pool& pool)
      : settings_(std::move(settings)),
        context_{settings_, service, pool, metrics_},
        connections_(executor) {
    if (settings_.port || settings_.listener_fd) tcp_.emplace(listen_tcp(settings_, executor));
    if (!settings_.unix_socket.empty())
      local_.emplace(listen_local(settings_.unix_socket, executor));
  }

  ~Impl() {
    if (local_) ::unlink(settings_.unix_socket.c_str());
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  asio::awaitable<void> run() {
    asio::any_io_executor executor = co_await asio::this_coro::executor;
    auto listening = asio::experimental::make_parallel_group(
        asio::co_spawn(executor, accept_all(tcp_), asio::deferred),
        asio::co_spawn(executor, accept_all(local_), asio::deferred));
    auto [order, tcp_error, local_error] =
        co_await listening.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
    if (tcp_error) std::rethrow_exception(tcp_error);
    if (local_error) std::rethrow_exception(local_error);
    co_await drain();
  }

  void stop() {
    lifecycle_.stopping = true;
    boost::system::error_code ignored;  // closing is all that is left to do
    if (tcp_) tcp_->close(ignored);
    if (local_) local_->close(ignored);
    connections_.cancel(ConnectionSet::Which::idle);
  }

  [[nodiscard]] std::uint16_t port() const {
    return tcp_ ? tcp_->local_endpoint().port() : std::uint16_t{0};
  }

private:
  template <typename Acceptor>
  asio::awaitable<void> accept_all(std::optional<Acceptor>& acceptor) {
    while (acceptor && !lifecycle_.stopping) {
      if (connections_.size() >= settings_.limits.max_connections) {
        co_await connections_.wait_for_one();
        continue;
      }
      auto [error, socket] = co_await acceptor->async_accept(asio::as_tuple(asio::use_awaitable));
      if (lifecycle_.stopping) break;
      if (error) {
        spdlog::warn("accept: {}", error.message());
        co_await pause();
        continue;
      }
      prepare(socket);
      serve<typename Acceptor::protocol_type>(std::move(socket));
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
    connections_.spawn([this, &stream](bool& busy) { return serve_one(std::move(stream), busy); });
  }

  asio::awaitable<void> serve_one(std::unique_ptr<Stream> stream, bool& busy) {
    metrics_.connection_opened();
    const std::unique_ptr<Metrics, void (*)(Metrics*)> open(
        &metrics_, [](Metrics* metrics) { metrics->connection_closed(); });
    co_await serve_connection(std::move(stream), context_, lifecycle_, busy);
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
  Metrics metrics_;
  Context context_;
  Lifecycle lifecycle_;
  ConnectionSet connections_;
  std::optional<TcpAcceptor> tcp_;
  std::optional<LocalAcceptor> local_;
};

Server::Server(ServerSettings settings, sessions::SessionService& service,
               asio::any_io_executor executor, asio::thread_pool& pool)
    : impl_(std::make_unique<Impl>(std::move(settings), service, executor, pool)) {}
Server::~Server() = default;

// Not `return impl_->run()`: the frame must be made here, where it is awaited.
asio::awaitable<void> Server::run() { co_await impl_->run(); }
void Server::stop() { impl_->stop(); }
std::uint16_t Server::port() const { return impl_->port(); }

}  // namespace daiv::api
