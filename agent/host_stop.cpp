#include "agent/host_stop.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>

#include "agent/signals.hpp"

namespace daiv::agent {
namespace {

// Commands have had the manager's SIGTERM already. Well below TimeoutStopSec= of the unit.
constexpr std::chrono::seconds grace{10};

// A sender that this namespace can't see has no number in it; that it is kill(2) that was called,
// and not rt_sigqueueinfo(2) with a made-up number, SI_USER says (sigaction(2)).
bool is_from_outside(const signalfd_siginfo& signal) {
  return signal.ssi_code == SI_USER && signal.ssi_pid == 0;
}

}  // namespace

HostStop::HostStop(Context& context)
    : signals_(open_signals(SIGTERM)),
      ending_(context, [] { ::_exit(0); }),
      watch_(context.loop, signals_, EPOLLIN, [this](std::uint32_t) { on_signal(); }) {}

void HostStop::on_signal() {
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    if (asked_ || !is_from_outside(signal)) continue;
    asked_ = true;
    ending_.start(grace);
  }
}

}  // namespace daiv::agent
