#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Capability sets of a sandbox's PID 1 (capabilities(7)). All of them count inside the session's
// user namespace only.
namespace daiv::runtime {

enum class AgentPrivilege : std::uint8_t {
  no_new_privs,   // commands can't gain anything by execve(2)
  setuid_allowed  // setuid programs of the image work: the agent loads seccomp without
                  // no_new_privs, which needs CAP_SYS_ADMIN of the namespace (seccomp(2)), and
                  // takes it from every command
};

// What the agent keeps: the default set of containers without NET_RAW, plus CAP_SYS_ADMIN where it
// must. Pure.
std::vector<int> plan_agent_capabilities(AgentPrivilege privilege);

// Limits the bounding set to `kept`, empties the ambient set, and looks that it is so. The next
// execve(2) of uid 0 then has exactly these. Throws os::Error.
void limit_capabilities(std::span<const int> kept);

// PR_SET_NO_NEW_PRIVS, and looks that it is so.
void set_no_new_privs();

}  // namespace daiv::runtime
