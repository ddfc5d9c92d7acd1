#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

// Runs `operation` on `io` until it ends, with everything else that is queued there; what it throws
// comes through.
template <typename Value>
Value run_to_end(boost::asio::io_context& io, boost::asio::awaitable<Value> operation) {
  std::exception_ptr failure;
  bool ended = false;
  std::optional<Value> result;
  boost::asio::co_spawn(io, std::move(operation),
                        [&](const std::exception_ptr& error, Value value) {
                          failure = error;
                          ended = true;
                          result.emplace(std::move(value));
                        });
  io.restart();
  while (!ended && io.run_one() > 0) {
  }
  if (!ended) throw std::logic_error("the operation waits for nothing");
  if (failure) std::rethrow_exception(failure);
  return std::move(*result);
}

inline void run_to_end(boost::asio::io_context& io, boost::asio::awaitable<void> operation) {
  std::exception_ptr failure;
  bool ended = false;
  boost::asio::co_spawn(io, std::move(operation), [&](const std::exception_ptr& error) {
    failure = error;
    ended = true;
  });
  io.restart();
  while (!ended && io.run_one() > 0) {
  }
  if (!ended) throw std::logic_error("the operation waits for nothing");
  if (failure) std::rethrow_exception(failure);
}
