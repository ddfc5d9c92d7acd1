#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "agent/protocol.hpp"

// How a process of the agent becomes one of the sandbox's user: for commands, workers and seeds
// alike.
namespace daiv::agent {

// Made once, before any fork.
struct Confinement {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  PrivilegeGain privilege_gain = PrivilegeGain::denied;
  std::uint32_t max_processes = 0;
  std::vector<sock_filter> filter;  // never empty

  // The capabilities that a command may ever hold, as bits: none, or the default container set
  // without NET_RAW.
  [[nodiscard]] std::uint64_t bounding_set() const noexcept;
};

// Drops everything that confinement.bounding_set() lacks from this process's bounding set, which
// its children inherit. The agent's own capabilities stay: only execve(2) consults the bounding
// set. Throws os::Error.
void limit_bounding_set(const Confinement& confinement);

// What went wrong in a child: a step's name (static) and errno; null step: nothing.
struct StepError {
  const char* step = nullptr;
  int error = 0;
};

// Called in a forked child: limits, oom_score_adj, identity, capabilities, no_new_privs, and last
// the filter; then checks that each is in force. Allocates nothing. After an error the child must
// end.
[[nodiscard]] StepError confine(const Confinement& confinement) noexcept;

// Makes the calling (confined) process's current directory /workspace/repo; makes it anew where it
// is no directory.
[[nodiscard]] StepError enter_repo() noexcept;

}  // namespace daiv::agent
