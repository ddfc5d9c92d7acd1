#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <list>

namespace daiv::api {

// Owns the tasks of all connections: none outlives it unnoticed. Used on the executor's thread
// alone.
class ConnectionSet {
public:
  // Makes the task; `busy` lives as long as it, and says whether a request is under way.
  using Start = std::function<boost::asio::awaitable<void>(bool& busy)>;

  explicit ConnectionSet(boost::asio::any_io_executor executor);
  ConnectionSet(const ConnectionSet&) = delete;
  ConnectionSet& operator=(const ConnectionSet&) = delete;

  void spawn(const Start& start);
  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }

  enum class Which { idle, all };
  void cancel(Which which);

  // Returns when a member has ended since the call, or at once where there is none.
  boost::asio::awaitable<void> wait_for_one();
  // Returns when none is left.
  boost::asio::awaitable<void> join();

private:
  struct Member {
    boost::asio::cancellation_signal cancel;
    bool busy = false;
  };

  boost::asio::any_io_executor executor_;
  std::list<Member> members_;
  boost::asio::steady_timer changed_;  // cancelled whenever a member ends
};

}  // namespace daiv::api
