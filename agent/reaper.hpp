#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <unordered_map>

#include "agent/loop.hpp"
#include "agent/protocol.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent {

// Waits for every child: those that the agent started, and the orphans that PID 1 inherits
// (pid_namespaces(7)).
class Reaper {
public:
  // How a process ended: its exit status or the signal.
  using ExitCallback = std::function<void(ExecOutcome outcome, int code)>;

  // Blocks SIGCHLD in this process. Throws os::Error.
  explicit Reaper(Loop& loop);

  // Calls back once when `pid`, a child that was not yet waited for, has ended.
  void expect(pid_t pid, ExitCallback callback) { expected_[pid] = std::move(callback); }
  void forget(pid_t pid) { expected_.erase(pid); }

  // Does not let `pid`, a child, stand still: others of its user may stop it (signal(7), SIGSTOP).
  // It is continued at once, and ended where that happens max_stops times, as by then it is
  // being stopped on purpose and gets nowhere.
  void keep_running(pid_t pid) { stops_[pid] = 0; }
  static constexpr int max_stops = 16;

  // Called after each batch of ended processes for as long as the returned id is not given to
  // unsubscribe().
  std::uint64_t subscribe(std::function<void()> observer);
  void unsubscribe(std::uint64_t id) { observers_.erase(id); }

  // Waits for all that have ended. Called by the loop; also useful before asking whether anybody is
  // left.
  void reap();

private:
  void continue_stopped();

  os::UniqueFd signals_;
  Watch watch_;
  std::unordered_map<pid_t, ExitCallback> expected_;
  std::unordered_map<pid_t, int> stops_;  // how often each has been stopped
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::function<void()>> observers_;
};

}  // namespace daiv::agent
