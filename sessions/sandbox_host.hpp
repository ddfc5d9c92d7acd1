#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"

namespace daiv::sessions {

// All that a sandbox is made from.
struct SandboxSpec {
  runtime::CreateSandbox request;
  std::string agent_config;  // agent::Config, encoded
};

// The host could not do what it was asked.
class HostError : public std::exception {
public:
  HostError(runtime::Failure kind, std::string text) : kind_(kind), text_(std::move(text)) {}
  [[nodiscard]] runtime::Failure kind() const noexcept { return kind_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  runtime::Failure kind_;
  std::string text_;
};

// A sandbox that runs.
struct Sandbox {
  os::UniqueFd pidfd;                        // of its agent
  std::vector<os::UniqueFd> egress_sockets;  // the proxy's, for a sandbox with egress; else none
};

// Where sandboxes live: the broker, or a test's fake. Thread-safe; every call may block, so it is
// made on a pool. Failures are HostError or os::Error.
class SandboxHost {
public:
  virtual ~SandboxHost() = default;
  // Starts a sandbox, on its old writable layer where there is one; its agent listens by then.
  virtual Sandbox create(const SandboxSpec& spec) = 0;
  // Ends all its processes; the writable layer stays. Done also where nothing runs.
  virtual void kill(const std::string& session) = 0;
  // Ends it and removes all of it. Done also where there is nothing.
  virtual void remove(const std::string& session) = 0;
  virtual std::vector<runtime::SandboxEntry> list() = 0;
  // A running sandbox, after a restart of the daemon. The request names the session.
  virtual Sandbox adopt(const runtime::AdoptSandbox& request) = 0;
};

}  // namespace daiv::sessions
