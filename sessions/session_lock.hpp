#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <list>
#include <optional>
#include <utility>

namespace daiv::sessions {

// One operation at a time on one session, in the order in which they came. Used on the io thread
// alone, so it needs no mutex. Nothing else than the waiting operation waits.
class SessionLock {
public:
  // The right to work on the session; gives it to the next waiter when it goes. The lock must
  // outlive it.
  class Hold {
  public:
    explicit Hold(SessionLock& lock) noexcept : lock_(&lock) {}
    Hold(Hold&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    Hold& operator=(Hold&&) = delete;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (lock_ != nullptr) lock_->release();
    }

  private:
    SessionLock* lock_;
  };

  explicit SessionLock(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}
  SessionLock(const SessionLock&) = delete;
  SessionLock& operator=(const SessionLock&) = delete;

  // Waits for its turn; empty where that did not come within `wait`. Throws operation_aborted if
  // cancelled.
  boost::asio::awaitable<std::optional<Hold>> acquire(std::chrono::milliseconds wait);

  // Without waiting; empty where an operation runs or waits.
  std::optional<Hold> try_acquire();

  [[nodiscard]] bool held() const noexcept { return held_; }

private:
  struct Waiter;
  struct Place;
  void release() noexcept;

  boost::asio::any_io_executor executor_;
  bool held_ = false;
  std::list<Waiter*> waiters_;
};

}  // namespace daiv::sessions
