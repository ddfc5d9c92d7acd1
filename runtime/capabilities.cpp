#include "runtime/capabilities.hpp"

#include <linux/capability.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "os/error.hpp"

namespace daiv::runtime {
namespace {

bool in_bounding_set(int capability) { return ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1; }

}  // namespace

std::vector<int> plan_agent_capabilities(AgentPrivilege privilege) {
  std::vector<int> kept{CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FOWNER,           CAP_FSETID,
                        CAP_KILL,    CAP_SETGID,       CAP_SETUID,           CAP_SETPCAP,
                        CAP_SETFCAP, CAP_SYS_CHROOT,   CAP_NET_BIND_SERVICE, CAP_AUDIT_WRITE,
                        CAP_MKNOD};
  if (privilege == AgentPrivilege::setuid_allowed) kept.push_back(CAP_SYS_ADMIN);
  return kept;
}

void limit_capabilities(std::span<const int> kept) {
  os::check(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl", "ambient set");
  // Capabilities are numbered without gaps; the first that the kernel does not know ends the list.
  for (int capability = 0;; ++capability) {
    if (std::ranges::find(kept, capability) != kept.end()) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      if (errno == EINVAL) return;
      os::throw_errno("prctl", "bounding set");
    }
    if (in_bounding_set(capability)) throw os::Error(EPERM, "prctl", "bounding set");
  }
}

void set_no_new_privs() {
  os::check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl", "no_new_privs");
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
    throw os::Error(EPERM, "prctl", "no_new_privs");
}

}  // namespace daiv::runtime
