#include "proxy/name_service.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <string>
#include <utility>

#include "proxy/dns_message.hpp"

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace daiv::proxy {
namespace {

constexpr milliseconds connection_idle{10'000};
constexpr milliseconds failure_pause{100};
constexpr std::size_t length_bytes = 2;

std::string answer(ProxiedSession& session, std::string_view query) {
  return answer_dns_query(query,
                          [&](const HostName& name) { return session.names.address_of(name); });
}

std::size_t length_of(std::string_view received) {
  return static_cast<std::size_t>(static_cast<unsigned char>(received[0])) << 8U |
         static_cast<unsigned char>(received[1]);
}

// Reads until one whole query has come. False: none will.
asio::awaitable<bool> read_query(Channel& channel, std::string& received) {
  for (;;) {
    if (received.size() >= length_bytes) {
      const std::size_t length = length_of(received);
      if (length > max_dns_query_bytes) co_return false;
      if (received.size() >= length_bytes + length) co_return true;
    }
    const ReadEnd end =
        co_await channel.read(received, length_bytes + max_dns_query_bytes, connection_idle);
    if (end != ReadEnd::data) co_return false;
  }
}

}  // namespace

asio::awaitable<void> serve_name_datagrams(std::shared_ptr<ProxiedSession> session,
                                           std::shared_ptr<ip::udp::socket> socket) {
  std::array<char, max_dns_query_bytes> buffer{};
  error_code ignored;
  socket->non_blocking(true, ignored);
  while (socket->is_open() && !session->removed) {
    ip::udp::endpoint sender;
    const auto result = co_await socket->async_receive_from(asio::buffer(buffer), sender,
                                                            asio::as_tuple(asio::use_awaitable));
    const error_code error = std::get<0>(result);
    const std::size_t size = std::get<1>(result);
    if (session->removed || error == asio::error::operation_aborted) co_return;
    if (error) {
      asio::steady_timer pause(socket->get_executor(), failure_pause);
      const auto waited = co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
      static_cast<void>(waited);
      continue;
    }
    const std::string reply = answer(*session, std::string_view(buffer.data(), size));
    // One that can't be sent now is lost, as datagrams are: the sandbox asks again.
    if (!reply.empty()) socket->send_to(asio::buffer(reply), sender, 0, ignored);
  }
}

asio::awaitable<void> serve_name_connection(std::shared_ptr<ProxiedSession> session,
                                            ip::tcp::socket socket) {
  Channel channel(session->channels, std::move(socket));
  std::string received;
  for (;;) {
    const bool has_query = co_await read_query(channel, received);
    if (!has_query) co_return;
    const std::size_t length = length_of(received);
    const std::string reply =
        answer(*session, std::string_view(received).substr(length_bytes, length));
    if (reply.empty()) co_return;
    std::string framed;
    framed += static_cast<char>(reply.size() >> 8U);
    framed += static_cast<char>(reply.size() & 0xffU);
    framed += reply;
    received.erase(0, length_bytes + length);
    const bool sent = co_await channel.write(framed, connection_idle);
    if (!sent) co_return;
    co_await channel.give_way();
  }
}

}  // namespace daiv::proxy
