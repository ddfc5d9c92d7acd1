#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>

#include <list>
#include <string>

namespace daiv::sessions {

// Owns background tasks: nothing runs that is not cancelled and awaited here at the end. Used on
// one thread (the executor's). What a task throws, other than its own cancellation, is logged with
// the task's name.
class TaskGroup {
public:
  explicit TaskGroup(boost::asio::any_io_executor executor);
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  void spawn(std::string name, boost::asio::awaitable<void> task);

  // Asks all tasks to end; tasks that are spawned later are not affected.
  void cancel();

  // Returns when no task is left.
  boost::asio::awaitable<void> join();

private:
  boost::asio::any_io_executor executor_;
  std::list<boost::asio::cancellation_signal> running_;
  boost::asio::steady_timer empty_;  // cancelled when the last task ends
};

}  // namespace daiv::sessions
