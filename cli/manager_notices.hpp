#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <string>

#include "os/service_manager.hpp"

namespace daiv::cli {

// Tells the service manager how the front fares (sd_notify(3)); without one it does nothing. All of
// it runs on the io thread: the watchdog hears of us exactly for as long as the event loop turns.
class ManagerNotices {
public:
  explicit ManagerNotices(boost::asio::io_context& io);

  // From now on the watchdog is fed. Throws os::Error: a manager that does not hear this would end
  // the service later, without a word of why.
  void ready(const std::string& status);
  void reloading();
  void reloaded();
  void stopping(const std::string& status);
  // Nothing of this keeps the event loop busy any more.
  void close();

private:
  void feed_watchdog();

  boost::asio::steady_timer timer_;
  os::Watchdog watchdog_;
};

}  // namespace daiv::cli
