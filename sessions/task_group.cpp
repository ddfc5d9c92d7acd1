#include "sessions/task_group.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

void report(const std::string& name, const std::exception_ptr& error) {
  if (!error) return;
  try {
    std::rethrow_exception(error);
  } catch (const boost::system::system_error& failure) {
    if (failure.code() == asio::error::operation_aborted) return;
    spdlog::error("task={} error=\"{}\"", name, failure.what());
  } catch (const std::exception& failure) {
    spdlog::error("task={} error=\"{}\"", name, failure.what());
  }
}

}  // namespace

TaskGroup::TaskGroup(asio::any_io_executor executor)
    : executor_(std::move(executor)), empty_(executor_, asio::steady_timer::time_point::max()) {}

void TaskGroup::spawn(std::string name, asio::awaitable<void> task) {
  const auto signal = running_.emplace(running_.end());
  auto ended = [this, signal, name = std::move(name)](const std::exception_ptr& error) {
    report(name, error);
    running_.erase(signal);
    if (running_.empty()) empty_.cancel();
  };
  asio::co_spawn(executor_, std::move(task),
                 asio::bind_cancellation_slot(signal->slot(), std::move(ended)));
}

void TaskGroup::cancel() {
  for (auto signal = running_.begin(); signal != running_.end();) {
    // The task may end at once and take its signal out of the list.
    const auto current = signal++;
    current->emit(asio::cancellation_type::terminal);
  }
}

asio::awaitable<void> TaskGroup::join() {
  while (!running_.empty()) co_await empty_.async_wait(asio::as_tuple(asio::use_awaitable));
}

}  // namespace daiv::sessions
