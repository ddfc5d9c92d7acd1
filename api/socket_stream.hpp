#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <limits>
#include <utility>

#include "api/stream.hpp"

namespace daiv::api {

// A Stream over a plain socket of `Protocol`. Included by server.cpp only.
template <typename Protocol>
class SocketStream final : public Stream {
public:
  using Socket = boost::asio::basic_stream_socket<Protocol>;

  explicit SocketStream(Socket socket) : socket_(std::move(socket)) {}

  boost::asio::awaitable<ReadResult> read_some(char* data, std::size_t size,
                                               std::chrono::milliseconds limit) override {
    namespace asio = boost::asio;
    asio::steady_timer timer(socket_.get_executor(), limit);
    auto group = asio::experimental::make_parallel_group(
        socket_.async_read_some(asio::buffer(data, size), asio::deferred),
        timer.async_wait(asio::deferred));
    auto [order, error, bytes, timer_error] =
        co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    ReadResult result{ReadEnd::data, bytes};
    if (error) result.end = order[0] == 1 ? ReadEnd::timed_out : ReadEnd::closed;
    co_return result;
  }

  boost::asio::awaitable<WriteEnd> write(std::string_view bytes,
                                         std::chrono::milliseconds limit) override {
    namespace asio = boost::asio;
    asio::steady_timer timer(socket_.get_executor(), limit);
    auto group = asio::experimental::make_parallel_group(
        asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()), asio::deferred),
        timer.async_wait(asio::deferred));
    auto [order, error, written, timer_error] =
        co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    co_return error ? WriteEnd::failed : WriteEnd::written;
  }

  boost::asio::awaitable<void> finish_writing(std::chrono::milliseconds) override {
    boost::system::error_code ignored;  // the peer may have gone first
    socket_.shutdown(Socket::shutdown_send, ignored);
    co_return;
  }

  [[nodiscard]] std::string_view scheme() const noexcept override { return "http"; }

  [[nodiscard]] std::string peer_address() const override {
    boost::system::error_code error;
    const auto peer = socket_.remote_endpoint(error);
    if (error) return {};
    if constexpr (requires { peer.address(); }) return peer.address().to_string();
    return "unix";
  }

private:
  Socket socket_;
};

}  // namespace daiv::api
