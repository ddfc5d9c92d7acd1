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
// For the last output and the answers of what was under way.
constexpr std::chrono::milliseconds answer_time{300};

// A sender that this namespace can't see has no number in it, and that it is kill(2) that was
// called, and not rt_sigqueueinfo(2) with a made-up number, SI_USER says (sigaction(2)). Both are
// so, too, where the kernel had no room for the record of a signal (RLIMIT_SIGPENDING), which can
// be brought about from inside; but then the uid is 0, and the host's root has none in this
// namespace (user_namespaces(7), Unmapped user and group IDs).
bool is_from_outside(const signalfd_siginfo& signal) {
  return signal.ssi_code == SI_USER && signal.ssi_pid == 0 && signal.ssi_uid != 0;
}

}  // namespace

HostStop::HostStop(Context& context)
    : context_(context),
      signals_(open_signals(SIGTERM)),
      ending_(context, [this] { exit_ = Timer(context_.loop, answer_time, [] { ::_exit(0); }); }),
      watch_(context.loop, signals_, EPOLLIN, [this](std::uint32_t) { on_signal(); }) {}

void HostStop::on_signal() {
  signalfd_siginfo signal{};
  // One a turn: who sends many keeps the loop from nothing else.
  if (::read(signals_.get(), &signal, sizeof signal) != sizeof signal) return;
  if (asked_ || !is_from_outside(signal)) return;
  asked_ = true;
  ending_.start(grace);
}

}  // namespace daiv::agent
