#include "sessions/session_lock.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coroutine_test.hpp"

namespace asio = boost::asio;
using daiv::sessions::SessionLock;
using namespace std::chrono_literals;

namespace {

asio::awaitable<void> take(SessionLock& lock, std::string name, std::vector<std::string>& order,
                           std::chrono::milliseconds wait) {
  const auto hold = co_await lock.acquire(wait);
  order.push_back(hold ? name : name + " timed out");
}

struct SessionLockTest : testing::Test {
  void spawn(std::string name, std::chrono::milliseconds wait) {
    asio::co_spawn(io, take(lock, std::move(name), order, wait),
                   [](const std::exception_ptr& error) {
                     if (error) std::rethrow_exception(error);
                   });
  }
  asio::io_context io;
  SessionLock lock{io.get_executor()};
  std::vector<std::string> order;
};

TEST_F(SessionLockTest, GoesToWaitersInTheOrderInWhichTheyCame) {
  auto first = lock.try_acquire();
  for (const char* name : {"a", "b", "c"}) spawn(name, 10s);
  io.poll();
  EXPECT_TRUE(order.empty());
  first.reset();
  io.restart();
  io.run();
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_FALSE(lock.held());
}

TEST_F(SessionLockTest, IsNotOvertakenWhileSomeoneWaits) {
  auto first = lock.try_acquire();
  spawn("waiter", 10s);
  io.poll();
  first.reset();
  EXPECT_FALSE(lock.try_acquire()) << "it belongs to the waiter already";
  io.restart();
  io.run();
  EXPECT_EQ(order, std::vector<std::string>{"waiter"});
}

TEST_F(SessionLockTest, GivesUpAfterTheWaitAndLeavesTheQueue) {
  auto first = lock.try_acquire();
  spawn("impatient", 20ms);
  spawn("patient", 10s);
  asio::steady_timer later(io, 60ms);
  later.async_wait([&](const boost::system::error_code&) { first.reset(); });
  io.run();
  EXPECT_EQ(order, (std::vector<std::string>{"impatient timed out", "patient"}));
}

TEST_F(SessionLockTest, ACancelledWaiterLeavesTheQueue) {
  auto first = lock.try_acquire();
  asio::cancellation_signal signal;
  bool aborted = false;
  asio::co_spawn(io, take(lock, "cancelled", order, 10s),
                 asio::bind_cancellation_slot(signal.slot(), [&](const std::exception_ptr& error) {
                   aborted = error != nullptr;
                 }));
  spawn("next", 10s);
  io.poll();
  signal.emit(asio::cancellation_type::terminal);
  io.restart();
  io.poll();
  EXPECT_TRUE(aborted);
  first.reset();
  io.restart();
  io.run();
  EXPECT_EQ(order, std::vector<std::string>{"next"});
}

}  // namespace
