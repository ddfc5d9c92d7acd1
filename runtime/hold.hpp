#pragma once

#include <optional>
#include <string>
#include <string_view>

// The holder of the sessions' cgroups. Under systemd sessions must not live in the cgroup of the
// broker's unit: systemd 252 can't restart a unit that has delegated children in its subtree. They
// live in that of a unit of its own (Delegate=yes), whose one process does nothing but be there.
namespace daiv::runtime {

// The unit's directory below the cgroup2 mount, and what is in it:
//   <unit>/holder     the holder itself: a cgroup that passes controllers on may hold no process
//                     (cgroup-v2, No Internal Process Constraint)
//   <unit>/sessions   the root of the sessions' cgroups, the broker's to fill
inline constexpr std::string_view holder_unit = "/system.slice/daiv-sandbox-sessions.service";
inline constexpr std::string_view holder_sessions = "/sessions";

// The path of a process in the v2 hierarchy, from the text of its /proc/<pid>/cgroup
// (cgroups(7)). Pure.
std::optional<std::string> find_cgroup2_path(std::string_view text);

// Makes the two directories in `unit`, the directory of this process's own cgroup, moves the
// process into the first and turns on every controller that is offered for the second. What cannot
// be turned on is missing: sessions that ask for it are refused. Throws os::Error.
void hold_cgroup(const std::string& unit);

}  // namespace daiv::runtime
