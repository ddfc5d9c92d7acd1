#include "api/connection_set.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include <tuple>

namespace daiv::api {
namespace {

namespace asio = boost::asio;

void report(const std::exception_ptr& error) {
  if (!error) return;
  try {
    std::rethrow_exception(error);
  } catch (const boost::system::system_error& failure) {
    if (failure.code() != asio::error::operation_aborted)
      spdlog::error("connection: {}", failure.what());
  } catch (const std::exception& failure) {
    spdlog::error("connection: {}", failure.what());
  }
}

}  // namespace

ConnectionSet::ConnectionSet(asio::any_io_executor executor)
    : executor_(std::move(executor)), changed_(executor_, asio::steady_timer::time_point::max()) {}

void ConnectionSet::spawn(const Start& start) {
  members_.emplace_back();
  const auto member = std::prev(members_.end());
  const auto ended = [this, member](const std::exception_ptr& error) {
    report(error);
    members_.erase(member);
    changed_.cancel();
  };
  asio::co_spawn(executor_, start(member->busy),
                 asio::bind_cancellation_slot(member->cancel.slot(), ended));
}

void ConnectionSet::cancel(Which which) {
  // A member may end, and leave the list, while it is being cancelled.
  for (auto member = members_.begin(); member != members_.end();) {
    const auto current = member++;
    if (which == Which::all || !current->busy)
      current->cancel.emit(asio::cancellation_type::terminal);
  }
}

asio::awaitable<void> ConnectionSet::wait_for_one() {
  if (members_.empty()) co_return;
  // Cancelled is what it is every time: by a member that ended, or by our caller's own
  // cancellation.
  const std::tuple<boost::system::error_code> outcome =
      co_await changed_.async_wait(asio::as_tuple(asio::use_awaitable));
  static_cast<void>(outcome);
}

asio::awaitable<void> ConnectionSet::join() {
  while (!members_.empty()) co_await wait_for_one();
}

}  // namespace daiv::api
