#include "sessions/session_lock.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

namespace asio = boost::asio;

namespace daiv::sessions {

struct SessionLock::Waiter {
  asio::steady_timer turn;
  bool granted = false;
};

// A waiter's place in the queue. It leaves the queue with the coroutine, however that ends.
struct SessionLock::Place {
  SessionLock& lock;
  Waiter waiter;
  std::list<Waiter*>::iterator position;

  Place(SessionLock& owner, std::chrono::milliseconds wait)
      : lock(owner),
        waiter{asio::steady_timer(owner.executor_, wait)},
        position(owner.waiters_.insert(owner.waiters_.end(), &waiter)) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (!waiter.granted) lock.waiters_.erase(position);
  }
};

asio::awaitable<std::optional<SessionLock::Hold>> SessionLock::acquire(
    std::chrono::milliseconds wait) {
  std::optional<Hold> free = try_acquire();
  if (free) co_return free;
  Place place(*this, wait);
  const auto [error] = co_await place.waiter.turn.async_wait(asio::as_tuple(asio::use_awaitable));
  if (place.waiter.granted) co_return std::optional<Hold>(std::in_place, *this);
  if (error) throw boost::system::system_error(asio::error::operation_aborted);
  co_return std::nullopt;
}

std::optional<SessionLock::Hold> SessionLock::try_acquire() {
  if (held_) return std::nullopt;
  held_ = true;
  return std::optional<Hold>(std::in_place, *this);
}

// The lock passes from hand to hand: while someone waits it is never free, so that nobody
// overtakes.
void SessionLock::release() noexcept {
  if (waiters_.empty()) {
    held_ = false;
    return;
  }
  Waiter* next = waiters_.front();
  waiters_.pop_front();
  next->granted = true;
  next->turn.cancel();
}

}  // namespace daiv::sessions
