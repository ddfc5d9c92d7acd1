#pragma once

#include <string>
#include <vector>

#include "runtime/backend.hpp"
#include "runtime/cgroup.hpp"
#include "runtime/sandbox_plan.hpp"

namespace daiv::runtime {

// Sandboxes out of the kernel's own parts: namespaces, an overlay over idmapped layers, cgroup v2,
// seccomp.
class NativeBackend final : public Backend {
public:
  // `agent_program` and `seccomp` are sealed memfds that every sandbox shares.
  NativeBackend(UidRanges ranges, CgroupRoot cgroups, os::UniqueFd agent_program,
                os::UniqueFd seccomp);

  std::expected<RunningAgent, Failed> create(SandboxSpec spec) override;
  void kill(const std::string& session) override;
  [[nodiscard]] bool is_running(const std::string& session) const override;
  [[nodiscard]] std::vector<std::string> list() const override;

  [[nodiscard]] const CgroupRoot& cgroups() const noexcept { return cgroups_; }

private:
  UidRanges ranges_;
  CgroupRoot cgroups_;
  os::UniqueFd agent_program_;
  os::UniqueFd seccomp_;
};

}  // namespace daiv::runtime
