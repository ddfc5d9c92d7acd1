#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "sessions/redis/client.hpp"
#include "sessions/task_group.hpp"

namespace daiv::sessions::redis {

// Locks that other daemons respect: a key whose value is a token that nobody else knows, set where
// there is none, with a life (TTL) that is renewed while it is held. What frees or renews a lock
// compares the token first, so nobody's lock is taken away.
//
// A token begins with the daemon's own identity. So a lock that this daemon held when it was
// killed, or could not free because Redis was away, is known for its own and taken over; hence a
// key must not be acquired twice at once within the daemon. Used on the io thread.
class Locks {
  struct Held;

public:
  using Milliseconds = std::chrono::milliseconds;

  // Frees the lock when it goes, in the background.
  class Hold {
  public:
    Hold(Locks& locks, std::shared_ptr<Held> held) noexcept
        : locks_(&locks), held_(std::move(held)) {}
    Hold(Hold&&) noexcept = default;
    Hold& operator=(Hold&&) = delete;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();

    // Something that must not go before the lock is free.
    void keep(std::shared_ptr<void> kept);

  private:
    Locks* locks_;
    std::shared_ptr<Held> held_;
  };

  // `identity` is this daemon's alone and the same after a restart; `refresh` is the time between
  // two renewals.
  Locks(Client& client, boost::asio::any_io_executor executor, std::string identity,
        Milliseconds refresh);
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

  // Asks every 0.1 s; empty where the lock did not come free within `wait`. Throws RedisError, and
  // operation_aborted if cancelled; then nothing stays held.
  boost::asio::awaitable<std::optional<Hold>> acquire(std::string key, Milliseconds ttl,
                                                      Milliseconds wait);

  // Returns when all locks that were given back are free, as far as Redis answers.
  boost::asio::awaitable<void> shut_down();

private:
  boost::asio::awaitable<bool> take(std::shared_ptr<Held> held);
  boost::asio::awaitable<bool> set(std::shared_ptr<Held> held);
  boost::asio::awaitable<bool> remove_own_leftover(std::shared_ptr<Held> held);
  boost::asio::awaitable<void> refresh(std::shared_ptr<Held> held);
  boost::asio::awaitable<void> release(std::shared_ptr<Held> held, std::shared_ptr<void> kept);

  Client& client_;
  boost::asio::any_io_executor executor_;
  std::string identity_;
  Milliseconds refresh_;
  TaskGroup refreshes_;
  TaskGroup releases_;
};

}  // namespace daiv::sessions::redis
