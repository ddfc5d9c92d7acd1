#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

// The processes of the sandbox as /proc tells them (proc(5)): the fallback where there are no
// cgroup leaves.
namespace daiv::agent {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  std::uint64_t start = 0;  // clock ticks: with the pid it names one process for ever
  bool zombie = false;
  bool busy = false;  // on a processor, waiting for one, or for a disk: its silence tells nothing
};

// Nothing where there is no such process.
std::optional<Process> read_process(pid_t pid);

// All but the calling process. Throws os::Error where /proc cannot be read.
std::vector<Process> list_processes();

// Those alive at one time.
using Snapshot = std::set<std::pair<pid_t, std::uint64_t>>;
Snapshot take_snapshot(const std::vector<Process>& processes);

// Who is alive now, was not in `before` and does not descend from one of those: the tree that was
// started since, orphans and children that called setsid included. `self` is the agent, whose
// children are orphans.
std::vector<pid_t> find_started_since(const Snapshot& before, const std::vector<Process>& now,
                                      pid_t self);

}  // namespace daiv::agent
