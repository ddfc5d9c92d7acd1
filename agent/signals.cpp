#include "agent/signals.hpp"

#include <signal.h>
#include <sys/signalfd.h>

#include <string>

#include "os/error.hpp"

namespace daiv::agent {

os::UniqueFd open_signals(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  os::check(::sigprocmask(SIG_BLOCK, &set, nullptr), "sigprocmask", std::to_string(signal));
  return os::UniqueFd(os::check(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd",
                                std::to_string(signal)));
}

}  // namespace daiv::agent
