#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/cgroups.hpp"
#include "agent/confine.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent {

// What a started command needs; everything is borrowed and only read after the fork.
struct LaunchPlan {
  const Confinement& confinement;
  const std::vector<std::string>& arguments;    // argv, [0] is the program's path
  const std::vector<std::string>& environment;  // NAME=value
  const os::UniqueFd& null;                     // standard input
  const os::UniqueFd& output;                   // standard output and error
  const os::UniqueFd* script = nullptr;         // becomes script_fd
  const Leaf* leaf = nullptr;  // its cgroup from birth (CLONE_INTO_CGROUP, Linux 5.7)
};

// A started command: a child of the caller. Why it could not be executed is read from `failure`
// once it has ended.
struct Launched {
  pid_t pid = 0;
  os::UniqueFd failure;
};

// Starts a command as a session and process group of its own, confined, in /workspace/repo. Throws
// os::Error where no process can be made. It is a plain copy, not vfork(2): a stopped child must
// not stop the agent.
Launched launch(const LaunchPlan& plan);

// The step and errno that the child wrote before it ended; nothing where the program was executed.
std::optional<std::string> read_failure(const os::UniqueFd& failure);

}  // namespace daiv::agent
