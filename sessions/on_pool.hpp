#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace daiv::sessions {

namespace detail {

template <typename Work>
auto call_with_value(Work& work) {
  if constexpr (std::is_void_v<std::invoke_result_t<Work&>>) {
    work();
    return true;
  } else {
    return work();
  }
}

}  // namespace detail

// Runs `work` on `pool` and resumes the awaiting coroutine on its own executor with what it
// returned or threw. `work` owns its data, or borrows from the awaiting coroutine, which can't go
// away meanwhile: a cancellation does not interrupt the wait, since work that has begun has effects
// that its caller must learn of.
template <typename Work>
boost::asio::awaitable<std::invoke_result_t<Work&>> on_pool(boost::asio::thread_pool& pool,
                                                            Work work) {
  namespace asio = boost::asio;
  using Value = decltype(detail::call_with_value(work));
  auto initiate = [&pool](auto handler, Work owned) {
    auto executor = asio::get_associated_executor(handler);
    auto job = [handler = std::move(handler), owned = std::move(owned), executor,
                guard = asio::make_work_guard(executor)]() mutable {
      std::exception_ptr error;
      std::optional<Value> value;
      try {
        value.emplace(detail::call_with_value(owned));
      } catch (...) {  // handed on to the awaiting coroutine, whole
        error = std::current_exception();
      }
      auto resume = [handler = std::move(handler), error, value = std::move(value)]() mutable {
        std::move(handler)(error, std::move(value));
      };
      asio::dispatch(executor, std::move(resume));
    };
    asio::post(pool, std::move(job));
  };
  std::optional<Value> value =
      co_await asio::async_initiate<const asio::use_awaitable_t<>,
                                    void(std::exception_ptr, std::optional<Value>)>(
          initiate, asio::use_awaitable, std::move(work));
  if constexpr (!std::is_void_v<std::invoke_result_t<Work&>>) co_return std::move(*value);
}

}  // namespace daiv::sessions
