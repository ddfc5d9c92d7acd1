#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>

namespace daiv::proxy {

// Lets one coroutine wait for what another does on the same thread. It holds no state: who waits
// looks at what it waits for before, and again after each wake.
class Wakeup {
public:
  explicit Wakeup(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  void wake() { timer_.cancel(); }

  // False where `limit` has passed without a wake.
  boost::asio::awaitable<bool> wait(std::chrono::milliseconds limit) {
    timer_.expires_after(limit);
    const auto ended =
        co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    co_return std::get<0>(ended) == boost::asio::error::operation_aborted;
  }

private:
  boost::asio::steady_timer timer_;
};

}  // namespace daiv::proxy
