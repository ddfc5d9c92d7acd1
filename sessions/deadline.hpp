#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>
#include <chrono>
#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>

#include "os/error.hpp"

namespace daiv::sessions {

// Awaits `operation` for at most `limit`; then cancels it, waits until it has let go, and throws
// os::Error{ETIMEDOUT, what, "deadline"}. What `operation` throws comes through. A cancellation of
// the caller cancels the operation. `Value` is void or default constructible. Not written as
// `operation || timer`: that would wait for the timer when the operation fails.
template <typename Value>
boost::asio::awaitable<Value> with_deadline(std::chrono::milliseconds limit, const char* what,
                                            boost::asio::awaitable<Value> operation) {
  namespace asio = boost::asio;
  auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, limit);
  auto group = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, std::move(operation), asio::deferred),
      timer.async_wait(asio::deferred));
  auto outcome = co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  const std::exception_ptr& error = std::get<1>(outcome);
  const bool expired = !std::get<std::tuple_size_v<decltype(outcome)> - 1>(outcome);
  // An operation that finished beside the timer counts as finished: its effects are there.
  if (error && expired) throw os::Error(ETIMEDOUT, what, "deadline");
  if (error) std::rethrow_exception(error);
  if constexpr (!std::is_void_v<Value>) co_return std::move(std::get<2>(outcome));
}

namespace detail {

template <typename Value>
boost::asio::awaitable<Value> deaf(boost::asio::awaitable<Value> operation) {
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  if constexpr (std::is_void_v<Value>) {
    co_await std::move(operation);
  } else {
    Value value = co_await std::move(operation);
    co_return value;
  }
}

}  // namespace detail

// Awaits `operation` to its end whatever happens to the caller: a cancellation takes effect at the
// caller's next await. For changes of state that must be made whole or not at all.
template <typename Value>
boost::asio::awaitable<Value> uninterrupted(boost::asio::awaitable<Value> operation) {
  namespace asio = boost::asio;
  auto executor = co_await asio::this_coro::executor;
  auto inner = detail::deaf(std::move(operation));
  if constexpr (std::is_void_v<Value>) {
    co_await asio::co_spawn(executor, std::move(inner), asio::use_awaitable);
  } else {
    Value value = co_await asio::co_spawn(executor, std::move(inner), asio::use_awaitable);
    co_return value;
  }
}

}  // namespace daiv::sessions
