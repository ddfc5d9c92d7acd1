#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/unique_fd.hpp"

// What a service manager such as systemd and its services say to each other (sd_listen_fds(3),
// sd_notify(3)), by environment variables and one datagram socket. Everything throws os::Error.
namespace daiv::os {

// A socket that the manager opened for us.
struct PassedSocket {
  UniqueFd socket;   // close-on-exec
  std::string name;  // FileDescriptorName= of its unit; empty where the manager gave none
};

// The sockets passed to this very process; none where there is no manager. Descriptors are taken
// over and the variables removed, so that neither a second call nor a child takes them for its own.
// Call it before threads are started (setenv(3)) and before anything opens descriptors.
std::vector<PassedSocket> take_passed_sockets();

// Tells the manager `state`: lines such as READY=1, STATUS=text. Does nothing without a manager.
void notify_manager(std::string_view state);

// How often at least the manager wants to hear WATCHDOG=1; empty where it does not watch this
// process (sd_watchdog_enabled(3)).
std::optional<std::chrono::microseconds> find_watchdog_limit();

// Feeds the manager's watchdog of this process from its loop.
class Watchdog {
public:
  Watchdog() : limit_(find_watchdog_limit()) {}

  // Says WATCHDOG=1 where it is time to; returns after how long to call again, a long time where
  // nobody watches. A manager that can't be told is passed over: if it is still there, it ends this
  // process for that.
  std::chrono::milliseconds feed() noexcept;

private:
  std::optional<std::chrono::microseconds> limit_;
  std::chrono::steady_clock::time_point due_;
};

}  // namespace daiv::os
