#include "sessions/agent_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "agent/protocol.hpp"
#include "os/error.hpp"
#include "os/socket.hpp"
#include "sessions/deadline.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

using Socket = asio::local::stream_protocol::socket;
using boost::system::error_code;

constexpr std::size_t read_ahead_bytes = 64U << 10;
constexpr std::chrono::milliseconds backlog_retry{2};

[[noreturn]] void throw_gone(const error_code& error) {
  if (error == asio::error::operation_aborted) throw boost::system::system_error(error);
  throw AgentError(AgentFault::gone, fmt::format("agent: connection lost: {}", error.message()));
}

os::UniqueFd connect_once(const std::string& path, bool& full) {
  try {
    auto socket = os::try_connect_unix(path, os::SocketKind::stream);
    full = !socket.has_value();
    return full ? os::UniqueFd() : std::move(*socket);
  } catch (const os::Error& error) {
    if (error.error_number() != ECONNREFUSED && error.error_number() != ENOENT) throw;
    throw AgentError(AgentFault::gone, error.what());
  }
}

}  // namespace

struct AgentConnection::Impl {
  explicit Impl(Socket connected) : socket(std::move(connected)) {}

  asio::awaitable<void> write(std::string frame);
  asio::awaitable<void> fill();
  asio::awaitable<AgentFrame> read_frame();

  Socket socket;
  std::string ahead;  // read, not yet used
  std::array<char, read_ahead_bytes> chunk;
};

AgentConnection::AgentConnection(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
AgentConnection::AgentConnection(AgentConnection&&) noexcept = default;
AgentConnection& AgentConnection::operator=(AgentConnection&&) noexcept = default;
AgentConnection::~AgentConnection() = default;

asio::awaitable<AgentConnection> AgentConnection::open(std::string socket_path, AgentLimit limit) {
  auto executor = co_await asio::this_coro::executor;
  const auto give_up = std::chrono::steady_clock::now() + limit;
  for (;;) {
    bool full = false;
    os::UniqueFd connected = connect_once(socket_path, full);
    if (!full) {
      Socket socket(executor, asio::local::stream_protocol(), connected.get());
      static_cast<void>(connected.release());
      co_return AgentConnection(std::make_unique<Impl>(std::move(socket)));
    }
    if (std::chrono::steady_clock::now() >= give_up) {
      throw AgentError(AgentFault::stalled, "agent: does not accept connections");
    }
    // A full backlog can't be polled for (connect(2)): only trying again tells.
    asio::steady_timer pause(executor, backlog_retry);
    co_await pause.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<void> AgentConnection::Impl::write(std::string frame) {
  const auto [error, count] =
      co_await asio::async_write(socket, asio::buffer(frame), asio::as_tuple(asio::use_awaitable));
  static_cast<void>(count);
  if (error) throw_gone(error);
}

asio::awaitable<void> AgentConnection::Impl::fill() {
  const auto [error, count] =
      co_await socket.async_read_some(asio::buffer(chunk), asio::as_tuple(asio::use_awaitable));
  if (error) throw_gone(error);
  ahead.append(chunk.data(), count);
}

asio::awaitable<AgentFrame> AgentConnection::Impl::read_frame() {
  while (ahead.size() < agent::frame_header_bytes) co_await fill();
  agent::FrameHeader header;
  try {
    const std::string_view begin = std::string_view(ahead).substr(0, agent::frame_header_bytes);
    // Listings of large trees alone may be longer; the type is the header's last byte.
    const bool is_fs = begin.back() == static_cast<char>(agent::AnswerType::fs);
    header = agent::parse_frame_header(
        begin, is_fs ? agent::max_fs_answer_bytes : agent::max_answer_bytes);
  } catch (const wire::DecodeError& error) {
    throw AgentError(AgentFault::malformed, fmt::format("agent: {}", error.what()));
  }
  AgentFrame frame;
  frame.type = header.type;
  const std::size_t here =
      std::min<std::size_t>(header.length, ahead.size() - agent::frame_header_bytes);
  frame.payload.assign(ahead, agent::frame_header_bytes, here);
  ahead.erase(0, agent::frame_header_bytes + here);
  if (here < header.length) {
    frame.payload.resize(header.length);
    const auto rest = asio::buffer(frame.payload.data() + here, header.length - here);
    const auto [error, count] =
        co_await asio::async_read(socket, rest, asio::as_tuple(asio::use_awaitable));
    static_cast<void>(count);
    if (error) throw_gone(error);
  }
  co_return frame;
}

asio::awaitable<void> AgentConnection::send(std::uint8_t type, std::string payload,
                                            AgentLimit limit) {
  try {
    co_await with_deadline(limit, "send to agent", impl_->write(agent::make_frame(type, payload)));
  } catch (const os::Error& error) {
    if (error.error_number() != ETIMEDOUT) throw;
    throw AgentError(AgentFault::stalled, "agent: takes no data");
  }
}

asio::awaitable<bool> AgentConnection::send_unless_answered(std::uint8_t type, std::string payload,
                                                            AgentLimit limit) {
  const std::string frame = agent::make_frame(type, payload);
  auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, limit);
  auto group = asio::experimental::make_parallel_group(
      asio::async_write(impl_->socket, asio::buffer(frame), asio::deferred),
      impl_->socket.async_wait(Socket::wait_read, asio::deferred),
      timer.async_wait(asio::deferred));
  const auto [order, write_error, written, wait_error, timer_error] =
      co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  static_cast<void>(written);
  static_cast<void>(order);
  if (!wait_error) co_return false;
  if (!write_error) co_return true;
  if (!timer_error) throw AgentError(AgentFault::stalled, "agent: takes no data");
  if (write_error == asio::error::operation_aborted) throw_gone(write_error);
  // An agent that answered early may have closed as well: what it said is still there to read.
  co_return false;
}

asio::awaitable<AgentFrame> AgentConnection::receive(std::optional<AgentLimit> limit) {
  if (!limit) {
    AgentFrame frame = co_await impl_->read_frame();
    co_return frame;
  }
  try {
    AgentFrame frame = co_await with_deadline(*limit, "agent's answer", impl_->read_frame());
    co_return frame;
  } catch (const os::Error& error) {
    if (error.error_number() != ETIMEDOUT) throw;
    throw AgentError(AgentFault::stalled, "agent: no answer");
  }
}

}  // namespace daiv::sessions
