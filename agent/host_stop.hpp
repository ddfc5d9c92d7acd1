#pragma once

#include "agent/context.hpp"
#include "agent/ending.hpp"

namespace daiv::agent {

// Lets the sandbox end when the host asks for it, as a service manager does that stops the unit
// whose cgroup it is in: on SIGTERM the agent ends all others, then itself. PID 1 is sent a signal
// from outside only if it takes it (pid_namespaces(7)). One from inside is not obeyed.
class HostStop {
public:
  // Blocks SIGTERM in this process. Throws os::Error.
  explicit HostStop(Context& context);
  HostStop(const HostStop&) = delete;
  HostStop& operator=(const HostStop&) = delete;

private:
  void on_signal();

  Context& context_;
  os::UniqueFd signals_;
  Ending ending_;
  Timer exit_;
  bool asked_ = false;
  Watch watch_;
};

}  // namespace daiv::agent
