#pragma once

#include <cstdint>

// Single defences that a test build can leave out, to show that the attack each one stops succeeds
// without it. In every other build defence_is_on() is the constant true, and the variable of the
// environment is not read.
namespace daiv::runtime {

enum class Defence : std::uint8_t {
  sealed_agent,        // the agent is executed from a sealed memfd nobody may read (CVE-2019-5736)
  rooted_targets,      // targets of mounts and files are opened inside the image's root
                       // (CVE-2021-30465)
  dropped_privileges,  // no CAP_SYS_ADMIN for the agent (CVE-2022-0492)
  system_call_filter,  // commands may make neither namespaces nor mounts (CVE-2022-0492)
  closed_descriptors,  // nothing above the agreed descriptors stays open (CVE-2024-21626)
  host_devices,        // masks and nodes are the host's devices, never what the image calls so
                       // (CVE-2025-31133, CVE-2025-52565)
  verified_proc,       // /proc is mounted on a directory of ours and looked at again by its path
                       // (CVE-2025-52881)
};

#ifdef DAIV_ATTACK_SWITCHES
// False where DAIV_SANDBOX_ATTACK_WITHOUT holds the defence's name (a comma-separated list).
bool defence_is_on(Defence defence);
#else
constexpr bool defence_is_on(Defence) { return true; }
#endif

}  // namespace daiv::runtime
