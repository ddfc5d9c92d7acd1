#pragma once

#include <string>
#include <vector>

#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"

// The steps that a sandbox's PID 1 takes between clone3 and the execution of the agent.
namespace daiv::runtime {

// All that it needs, made before the clone. Descriptors are borrowed copies of the creating
// process.
struct SandboxInit {
  CreateSandbox request;
  std::string overlay_options;
  std::vector<unsigned> processors;  // that it is limited to; none: it is not
  os::UniqueFd layers;   // detached mount of all layers, ids mapped to the session's range
  os::UniqueFd session;  // detached mount of the session's directory: upper, work, lower, root
  os::UniqueFd agent_program;  // sealed memfd
  os::UniqueFd agent_config;   // sealed memfd of the front
  os::UniqueFd seccomp;        // sealed memfd
  os::UniqueFd cgroup;         // detached mount of the session's cgroup
  os::UniqueFd listener;       // agent.sock
  os::UniqueFd status;         // the agent's status pipe
  os::UniqueFd go;             // readable when the id maps are written
  os::UniqueFd error;          // takes the text of what failed; closed by execve
};

// Runs in the new namespaces as PID 1; ends in the agent or in _exit(1) with a text on `error`.
[[noreturn]] void run_sandbox_init(const SandboxInit& init) noexcept;

}  // namespace daiv::runtime
