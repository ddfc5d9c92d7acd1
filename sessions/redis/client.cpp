#include "sessions/redis/client.hpp"

#include <boost/system/system_error.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "os/error.hpp"
#include "sessions/deadline.hpp"

namespace asio = boost::asio;

namespace daiv::sessions::redis {
namespace {

// A Redis on the same network answers within milliseconds; what takes longer than this is away.
constexpr std::chrono::milliseconds limit{5000};
constexpr std::size_t max_idle = 16;

}  // namespace

Client::Client(Url url) : connector_(std::move(url)) {}

asio::awaitable<Reply> Client::command(std::vector<std::string> words) {
  std::string why;
  Reply reply;
  try {
    auto bounded = with_deadline(limit, "redis command", exchange(std::move(words)));
    reply = co_await uninterrupted(std::move(bounded));
  } catch (const boost::system::system_error& error) {
    why = error.code().message();
  } catch (const os::Error& error) {
    if (error.error_number() != ETIMEDOUT) throw;
    why = "no answer in time";
  } catch (const RedisError& error) {
    why = error.what();
  }
  if (why.empty() && reply.kind == Reply::Kind::error) why = "it answers " + reply.text;
  if (!why.empty()) went(why);
  came();
  co_return reply;
}

asio::awaitable<Reply> Client::exchange(std::vector<std::string> words) {
  std::unique_ptr<Connection> connection = co_await take_connection();
  Reply reply = co_await connection->exchange(std::move(words));
  // After an error the next command logs in anew: rights may have changed.
  if (reply.kind != Reply::Kind::error && idle_.size() < max_idle)
    idle_.push_back(std::move(connection));
  co_return reply;
}

asio::awaitable<std::unique_ptr<Connection>> Client::take_connection() {
  while (!idle_.empty()) {
    std::unique_ptr<Connection> connection = std::move(idle_.back());
    idle_.pop_back();
    if (connection->is_quiet()) co_return connection;
  }
  std::unique_ptr<Connection> made = co_await connector_.connect();
  co_return made;
}

void Client::came() {
  if (state_ != State::there)
    spdlog::info("event=redis_connected address={}", connector_.url().place());
  state_ = State::there;
}

void Client::went(const std::string& why) {
  if (state_ != State::away)
    spdlog::warn(
        "event=redis_unavailable address={} error=\"{}\" effect=\"operations that need a session's "
        "lock answer 503\"",
        connector_.url().place(), why);
  state_ = State::away;
  throw RedisError(fmt::format("Redis at {}: {}", connector_.url().place(), why));
}

}  // namespace daiv::sessions::redis
