#include "proxy/http2_connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <spdlog/spdlog.h>

#include <exception>

#include "proxy/http2_exchange.hpp"

namespace asio = boost::asio;

namespace daiv::proxy {
namespace {

class Http2Connection {
public:
  explicit Http2Connection(ClientState& client)
      : client_{client.core, client.session, client.tunnel,
                Http2Link(*client.core, *client.session, client.channel, Http2Role::server,
                          [this](std::optional<std::int32_t> id) { take(id); }),
                Http2Upstreams(client.core, client.session)},
        ended_(client.core->executor) {}

  asio::awaitable<void> run(std::string received) {
    std::exception_ptr failure;
    try {
      co_await client_.link.run(std::move(received));
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    // Its streams are closed, so every exchange is on its way to its end.
    while (exchanges_ > 0) co_await ended_.wait(client_.core->settings.timeouts.tunnel);
    co_await client_.upstreams.close();
    if (failure) std::rethrow_exception(failure);
  }

private:
  static asio::awaitable<void> exchange(Http2Client& client, std::int32_t id) {
    Http2Exchange made(client, id);
    co_await made.run();
  }

  void take(std::optional<std::int32_t> id) {
    if (!id) {
      refuse_malformed();
      return;
    }
    ++exchanges_;
    auto ended = [this, id](const std::exception_ptr& error) {
      try {
        if (error) std::rethrow_exception(error);
      } catch (const std::exception& failure) {
        spdlog::error("session={} egress stream: {}", client_.session->id, failure.what());
      }
      client_.link.forget(*id);
      --exchanges_;
      ended_.wake();
    };
    asio::co_spawn(client_.core->executor, exchange(client_, *id), std::move(ended));
  }

  // Its stream has been reset already.
  void refuse_malformed() {
    JudgedRequest request(client_.core, client_.session, {});
    request.decision.status = 400;
    request.decision.reason = "a request that is none in HTTP/2";
    request.log();
  }

  Http2Client client_;
  Wakeup ended_;
  std::size_t exchanges_ = 0;
};

}  // namespace

asio::awaitable<void> serve_http2(ClientState& client) {
  Http2Connection connection(client);
  co_await connection.run(std::exchange(client.received, {}));
}

}  // namespace daiv::proxy
