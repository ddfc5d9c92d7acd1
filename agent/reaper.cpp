#include "agent/reaper.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "agent/signals.hpp"

namespace daiv::agent {
namespace {

// A fork bomb that is being killed must not keep the loop from its other events.
constexpr int max_reaped_per_turn = 256;

}  // namespace

Reaper::Reaper(Loop& loop) : signals_(open_signals(SIGCHLD)) {
  // Level-triggered: what one turn leaves over keeps the loop awake, as the signal is only read
  // when nobody is left.
  watch_ = Watch(loop, signals_, EPOLLIN, [this](std::uint32_t) { reap(); });
}

std::uint64_t Reaper::subscribe(std::function<void()> observer) {
  observers_.emplace(++last_id_, std::move(observer));
  return last_id_;
}

void Reaper::reap() {
  signalfd_siginfo ignored{};
  while (::read(signals_.get(), &ignored, sizeof ignored) > 0) {
  }
  continue_stopped();
  int reaped = 0;
  for (;; ++reaped) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) break;
    stops_.erase(info.si_pid);
    const auto found = expected_.find(info.si_pid);
    if (found != expected_.end()) {
      const auto callback = std::move(found->second);
      expected_.erase(found);
      callback(info.si_code == CLD_EXITED ? ExecOutcome::exited : ExecOutcome::signalled,
               info.si_status);
    }
    if (reaped == max_reaped_per_turn) {
      ::kill(::getpid(), SIGCHLD);  // comes back in the next turn
      break;
    }
  }
  if (reaped == 0) return;
  std::vector<std::uint64_t> ids;
  ids.reserve(observers_.size());
  for (const auto& [id, observer] : observers_) ids.push_back(id);
  for (const auto id : ids)
    if (const auto found = observers_.find(id); found != observers_.end()) {
      const auto observer = found->second;
      observer();
    }
}

void Reaper::continue_stopped() {
  // One by one: nobody else's children, however many are stopped and continued, hide these. The
  // SIGCHLD comes for stops too (sigaction(2), SA_NOCLDSTOP), and each is told once.
  for (auto& [pid, stops] : stops_) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG) != 0) continue;
    if (info.si_pid == pid) ::kill(pid, ++stops < max_stops ? SIGCONT : SIGKILL);
  }
}

}  // namespace daiv::agent
