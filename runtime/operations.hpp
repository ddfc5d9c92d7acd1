#pragma once

#include <string>
#include <vector>

#include "os/unique_fd.hpp"
#include "runtime/backend.hpp"
#include "runtime/broker_options.hpp"
#include "runtime/broker_protocol.hpp"
#include "runtime/layer_store.hpp"
#include "runtime/session_store.hpp"

namespace daiv::runtime {

// An operation's answer and the descriptors that go with it.
struct Outcome {
  Answer answer;
  std::vector<os::UniqueFd> fds;
};

// What each request does. Called in a process that has the operation to itself, and ends after one
// that failed (worker.hpp).
class Operations {
public:
  Operations(const BrokerOptions& options, Backend& backend);

  // Never throws for what the host or the request did: that is a Failed.
  Outcome perform(const Request& request, std::vector<os::UniqueFd> fds);

  // Takes away what a creation that failed or died left behind; a sandbox that runs and has its
  // record stays.
  void clean_up(const std::string& session);
  // The housekeeping: deletes what was removed; writes layers to the disk (syncfs(2), with all that
  // others have written).
  void delete_trash();
  void flush_layers();
  // Once, before the first request: undoes what an earlier broker left half done.
  void recover();

private:
  [[nodiscard]] std::vector<std::string> list_cgroups() const;
  Outcome act(const CreateSandbox& request, std::vector<os::UniqueFd> fds);
  Outcome act(const KillSandbox& request, std::vector<os::UniqueFd> fds);
  Outcome act(const RemoveSandbox& request, std::vector<os::UniqueFd> fds);
  Outcome act(const ListSandboxes& request, std::vector<os::UniqueFd> fds);
  Outcome act(const AdoptSandbox& request, std::vector<os::UniqueFd> fds);
  Outcome act(const UnpackLayer& request, std::vector<os::UniqueFd> fds);
  Outcome act(const RemoveLayers& request, std::vector<os::UniqueFd> fds);
  Outcome act(const ListLayers& request, std::vector<os::UniqueFd> fds);
  Outcome act(const RunCredentialHelper& request, std::vector<os::UniqueFd> fds);
  Outcome act(const ProbeHost& request, std::vector<os::UniqueFd> fds);
  Outcome act(const OpenUpstreamSockets& request, std::vector<os::UniqueFd> fds);

  std::optional<Failed> refuse(const CreateSandbox& request,
                               const std::vector<os::UniqueFd>& fds) const;
  // Running sessions go on where the disk is almost full; new ones and images are refused.
  std::optional<Failed> find_full_disk() const;
  Outcome create(const CreateSandbox& request, os::UniqueFd agent_config);
  // By its record, ending or not.
  std::optional<RunningAgent> find_agent(const std::string& session) const;
  std::optional<RunningAgent> find_running(const std::string& session) const;
  void end(const std::string& session);

  BrokerOptions options_;
  Backend& backend_;
  SessionStore sessions_;
  LayerStore layers_;
};

}  // namespace daiv::runtime
