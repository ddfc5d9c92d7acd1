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

}  // namespace daiv::os
