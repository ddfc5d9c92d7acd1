#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Single defences that a test build (-Dattack_switches=true) can leave out, to show that the attack
// each one stops succeeds without it. In every other build defence_is_on() is the constant true,
// and the variable of the environment is not read.
namespace daiv::os {

enum class Defence : std::uint8_t {
  sealed_agent,        // the agent is executed from a sealed memfd nobody may read (CVE-2019-5736)
  static_agent,        // the agent loads nothing, so nothing of the image either (CVE-2019-14271)
  rooted_targets,      // targets of mounts and files are opened inside the image's root
                       // (CVE-2021-30465)
  rooted_sources,      // no folder is shown that the image's links lead to outside of its root
                       // (CVE-2024-1753)
  dropped_privileges,  // no CAP_SYS_ADMIN for the agent (CVE-2022-0492)
  system_call_filter,  // commands may make neither namespaces nor mounts (CVE-2022-0492)
  closed_descriptors,  // nothing above the agreed descriptors stays open (CVE-2024-21626)
  host_devices,        // masks and nodes are the host's devices, never what the image calls so
                       // (CVE-2025-31133, CVE-2025-52565)
  verified_proc,       // /proc is mounted on a directory of ours and looked at again by its path
                       // (CVE-2025-52881)
  bound_credentials,   // a credential goes to no other host than its own (CVE-2020-15157)
  root_entry,          // the root entry of a layer is a directory (CVE-2021-29136)
  unpacker_root,       // the layer's directory is all that the unpacker sees (CVE-2021-29136)
  single_meaning,      // a manifest can be read in one way alone (CVE-2021-41190)
};

#ifdef DAIV_ATTACK_SWITCHES

// False where DAIV_SANDBOX_ATTACK_WITHOUT holds the defence's name (a comma-separated list).
bool defence_is_on(Defence defence);

// What a process of ours that gets an environment of its own is told nevertheless: the variables of
// the tests, as "NAME=value".
std::vector<std::string> test_environment();

#else

constexpr bool defence_is_on(Defence /*defence*/) { return true; }
inline std::vector<std::string> test_environment() { return {}; }

#endif

}  // namespace daiv::os
