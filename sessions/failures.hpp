#pragma once

#include <exception>

#include "sessions/session_service.hpp"

namespace daiv::sessions {

// Throws what a client is told of `failure`: SessionError for its own mistakes and for what a retry
// may clear; anything else as it is.
[[noreturn]] void rethrow_for_client(const std::exception_ptr& failure);

// Awaits `operation` and translates what it throws. The one place between the operations and what
// they stand on.
template <typename Value>
boost::asio::awaitable<Value> translated(boost::asio::awaitable<Value> operation) {
  std::exception_ptr failure;
  try {
    co_return co_await std::move(operation);
  } catch (...) {  // translated below
    failure = std::current_exception();
  }
  rethrow_for_client(failure);
}

}  // namespace daiv::sessions
