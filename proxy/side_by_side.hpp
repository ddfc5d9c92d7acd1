#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <tuple>
#include <utility>

namespace daiv::proxy {

// Runs two coroutines on the caller's executor and returns when both have ended. What one throws is
// thrown then, the first one's before the second's.
inline boost::asio::awaitable<void> side_by_side(boost::asio::awaitable<void> first,
                                                 boost::asio::awaitable<void> second) {
  namespace asio = boost::asio;
  auto executor = co_await asio::this_coro::executor;
  auto group = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, std::move(first), asio::deferred),
      asio::co_spawn(executor, std::move(second), asio::deferred));
  auto outcome = co_await group.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  if (std::get<1>(outcome)) std::rethrow_exception(std::get<1>(outcome));
  if (std::get<2>(outcome)) std::rethrow_exception(std::get<2>(outcome));
}

}  // namespace daiv::proxy
