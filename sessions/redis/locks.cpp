#include "sessions/redis/locks.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "sessions/session_record.hpp"

namespace asio = boost::asio;

namespace daiv::sessions::redis {
namespace {

constexpr std::chrono::milliseconds poll_interval{100};

constexpr const char* compare_and_delete =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 "
    "end";
constexpr const char* compare_and_pexpire =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) "
    "else return 0 end";

std::vector<std::string> eval(const char* script, std::string key, std::string token) {
  return {"EVAL", script, "1", std::move(key), std::move(token)};
}

void log_loss(const std::string& key) {
  spdlog::warn(
      "event=lock_lost key={} effect=\"the operation goes on; another daemon may work on the "
      "session as well\"",
      key);
}

}  // namespace

struct Locks::Held {
  std::string key;
  std::string token;
  Milliseconds ttl;
  asio::steady_timer renewal;
  // In Redis for sure, possibly (a command whose answer never came), or not.
  enum class State { free, doubtful, held, lost } state = State::free;
  bool given_back = false;
  std::shared_ptr<void> kept;
};

Locks::Hold::~Hold() {
  if (!held_) return;
  held_->given_back = true;
  held_->renewal.cancel();
  if (held_->state == Held::State::free) return;
  locks_->releases_.spawn("release " + held_->key, locks_->release(held_, std::move(held_->kept)));
}

void Locks::Hold::keep(std::shared_ptr<void> kept) { held_->kept = std::move(kept); }

Locks::Locks(Client& client, asio::any_io_executor executor, std::string identity,
             Milliseconds refresh)
    : client_(client),
      executor_(executor),
      identity_(std::move(identity)),
      refresh_(refresh),
      refreshes_(executor),
      releases_(executor) {}

asio::awaitable<std::optional<Locks::Hold>> Locks::acquire(std::string key, Milliseconds ttl,
                                                           Milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  auto held = std::make_shared<Held>(std::move(key), identity_ + ":" + make_session_id(), ttl,
                                     asio::steady_timer(executor_));
  Hold hold(*this, held);
  asio::steady_timer pause(executor_);
  for (;;) {
    const bool taken = co_await take(held);
    if (taken) break;
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) co_return std::nullopt;
    pause.expires_at(std::min(end, now + poll_interval));
    co_await pause.async_wait(asio::use_awaitable);
  }
  refreshes_.spawn("refresh " + held->key, refresh(held));
  co_return std::optional<Hold>(std::move(hold));
}

asio::awaitable<bool> Locks::take(std::shared_ptr<Held> held) {
  bool taken = co_await set(held);
  if (taken) co_return true;
  const bool removed = co_await remove_own_leftover(held);
  if (removed) taken = co_await set(held);
  co_return taken;
}

asio::awaitable<bool> Locks::set(std::shared_ptr<Held> held) {
  std::vector<std::string> command{"SET", held->key, held->token,
                                   "NX",  "PX",      std::to_string(held->ttl.count())};
  held->state = Held::State::doubtful;
  const Reply reply = co_await client_.command(std::move(command));
  held->state = reply.kind == Reply::Kind::text ? Held::State::held : Held::State::free;
  co_return held->state == Held::State::held;
}

asio::awaitable<bool> Locks::remove_own_leftover(std::shared_ptr<Held> held) {
  std::vector<std::string> question{"GET", held->key};
  Reply holder = co_await client_.command(std::move(question));
  if (holder.kind == Reply::Kind::nil) co_return true;
  if (!holder.text.starts_with(identity_ + ":")) co_return false;
  spdlog::info("event=lock_taken_over key={} reason=\"left by this daemon\"", held->key);
  auto removal = eval(compare_and_delete, held->key, std::move(holder.text));
  co_await client_.command(std::move(removal));
  co_return true;
}

asio::awaitable<void> Locks::refresh(std::shared_ptr<Held> held) {
  while (!held->given_back) {
    held->renewal.expires_after(refresh_);
    const auto [error] = co_await held->renewal.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error || held->given_back) co_return;
    auto renewal = eval(compare_and_pexpire, held->key, held->token);
    renewal.push_back(std::to_string(held->ttl.count()));
    Reply reply;
    try {
      reply = co_await client_.command(std::move(renewal));
    } catch (const RedisError&) {  // logged by the client; the lock lives on for its TTL
      continue;
    }
    if (held->given_back || reply.integer != 0) continue;
    held->state = Held::State::lost;
    log_loss(held->key);
    co_return;
  }
}

asio::awaitable<void> Locks::release(std::shared_ptr<Held> held, std::shared_ptr<void> kept) {
  if (held->state != Held::State::lost) {
    auto removal = eval(compare_and_delete, held->key, held->token);
    try {
      const Reply reply = co_await client_.command(std::move(removal));
      if (reply.integer == 0 && held->state == Held::State::held) log_loss(held->key);
    } catch (const RedisError&) {  // logged by the client; taken over by the next operation
    }
  }
  kept.reset();
}

asio::awaitable<void> Locks::shut_down() {
  co_await releases_.join();
  refreshes_.cancel();
  co_await refreshes_.join();
}

}  // namespace daiv::sessions::redis
