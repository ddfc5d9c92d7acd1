#pragma once

#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"

namespace daiv::runtime {

// All that a backend needs for a sandbox: a request that was checked, and what lies on the host for
// it.
struct SandboxSpec {
  CreateSandbox request;
  os::UniqueFd agent_config;     // sealed memfd
  os::UniqueFd listener;         // agent.sock
  os::UniqueFd session;          // the session's directory: upper, work, lower, root
  os::UniqueFd layers;           // the directory of all layers
  os::UniqueFd proxy_namespace;  // where request.egress ends; empty without it
};

struct RunningAgent {
  pid_t pid = -1;
  std::uint64_t start_time = 0;
  os::UniqueFd pidfd;
};

// What makes sandboxes out of namespaces, or out of something else. Called in a process that has
// the operation to itself, one operation at a time for a session. Throws os::Error for what the
// host could not do.
class Backend {
public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  // Starts the sandbox and returns when its agent listens. What is left of a failed call goes with
  // kill().
  virtual std::expected<RunningAgent, Failed> create(SandboxSpec spec) = 0;
  // Ends every process of the session and returns when none is left. Nothing to do where none runs.
  virtual void kill(const std::string& session) = 0;
  [[nodiscard]] virtual bool is_running(const std::string& session) const = 0;
  // The sessions that this backend knows of on the host, running or half gone.
  [[nodiscard]] virtual std::vector<std::string> list() const = 0;
};

}  // namespace daiv::runtime
