#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"

// The cgroup of a session (cgroup v2: Documentation/admin-guide/cgroup-v2.rst):
//   <root>/<session>              limits; delegated to the session's root
//   <root>/<session>/agent        PID 1
//   <root>/<session>/commands     the memory limit once more, so that the OOM killer looks here
//   only <root>/<session>/commands/…   a leaf for each command, made by the agent
namespace daiv::runtime {

using Controllers = std::set<std::string, std::less<>>;

inline constexpr std::uint64_t default_max_processes = 4096;
// What the session has above its memory limit, which is that of its commands: the agent's own.
inline constexpr std::uint64_t agent_memory_bytes = 16U << 20;

// Where a setting is written: into the session's cgroup or into the one of all its commands.
enum class CgroupLevel : std::uint8_t { session, commands };

struct CgroupSetting {
  std::string file;
  std::string value;
  CgroupLevel level = CgroupLevel::session;

  friend bool operator==(const CgroupSetting&, const CgroupSetting&) = default;
};

// What is written into the session's cgroups, or why a limit that was asked for can't be set. Pure.
// The memory limit is the commands': at their level the kernel looks for whom to kill, so never at
// the agent, which needs a little beside them (cgroup-v2, memory.max). Weights are the kernel's own
// default, which is fair; they are written where the controller is.
// `processors`: those that the session is limited to, where it is; without the cpuset controller
// only its affinity says so. Where the pids controller is missing, max_processes() goes into
// RLIMIT_NPROC instead.
std::expected<std::vector<CgroupSetting>, std::string> plan_cgroup(
    const Limits& limits, std::span<const unsigned> processors, const Controllers& controllers);
std::uint64_t max_processes(const Limits& limits);

// The directory that sessions' cgroups are made in.
class CgroupRoot {
public:
  // Opens `path`, makes it where it is missing, and turns on the controllers that it may. An empty
  // path means the holder's where that runs (runtime/hold.hpp), else daiv-sandbox below the host's
  // cgroup2 mount. Throws os::Error.
  static CgroupRoot open(std::string path);

  [[nodiscard]] const Controllers& controllers() const noexcept { return controllers_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const os::UniqueFd& directory() const noexcept { return directory_; }
  // The processors that sessions may use: those of this process, without what the directory's
  // cpuset leaves out.
  [[nodiscard]] std::vector<unsigned> processors() const;
  // Names of the sessions that have a cgroup.
  [[nodiscard]] std::vector<std::string> list() const;

private:
  std::string path_;
  os::UniqueFd directory_;
  Controllers controllers_;
};

// Descriptors of a session's cgroup. The directory stays when the object goes: the session's record
// owns it.
struct SessionCgroup {
  os::UniqueFd directory;
  os::UniqueFd agent;
  os::UniqueFd commands;
};

// Makes the session's cgroup with its settings at that level and hands it to the session's root
// (cgroup-v2, Delegation Containment). Throws os::Error{EEXIST} where one of that name is there.
SessionCgroup create_session_cgroup(const CgroupRoot& root, const std::string& session,
                                    const std::vector<CgroupSetting>& settings,
                                    std::uint32_t owner);

// Lets the leaves have the controllers that the session has, but the cpuset, which binds from
// above, and limits the commands. The session's own directory must hold no process by then
// (cgroup-v2, No Internal Process Constraint).
void enable_leaf_controllers(const SessionCgroup& cgroup, const Controllers& controllers,
                             const std::vector<CgroupSetting>& settings);

// Kills everything in the session's cgroup, waits until it is empty, and removes it with all below
// it. Nothing to do where it does not exist. Throws os::Error{ETIMEDOUT} where it is not empty in
// time.
void remove_session_cgroup(const CgroupRoot& root, const std::string& session,
                           std::chrono::milliseconds limit);

// Whether a process lives in the session's cgroup.
bool is_populated(const CgroupRoot& root, const std::string& session);

// Where cgroup2 is mounted, from the text of /proc/self/mountinfo. Pure.
std::optional<std::string> find_cgroup2_mount(std::string_view mountinfo);

}  // namespace daiv::runtime
