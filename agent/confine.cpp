#include "agent/confine.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "os/error.hpp"

namespace daiv::agent {
namespace {

constexpr std::uint64_t bit(int capability) { return std::uint64_t{1} << capability; }

// The default set of container engines (moby, oci/caps/defaults.go) without CAP_NET_RAW.
constexpr std::uint64_t container_capabilities =
    bit(CAP_CHOWN) | bit(CAP_DAC_OVERRIDE) | bit(CAP_FSETID) | bit(CAP_FOWNER) | bit(CAP_MKNOD) |
    bit(CAP_SETGID) | bit(CAP_SETUID) | bit(CAP_SETFCAP) | bit(CAP_SETPCAP) |
    bit(CAP_NET_BIND_SERVICE) | bit(CAP_SYS_CHROOT) | bit(CAP_KILL) | bit(CAP_AUDIT_WRITE);

// Above the agent's own value, so that the kernel takes a command first (proc(5), oom_score_adj).
constexpr std::string_view command_oom_score_adj = "500";
constexpr const char* repo_directory = "/workspace/repo";

using CapabilityData = std::array<__user_cap_data_struct, 2>;

StepError failed(const char* step) noexcept { return {step, errno}; }
StepError not_in_force(const char* step) noexcept { return {step, EPERM}; }

// The process's own raw calls: glibc's setres*id(2) would signal threads, and there are none.
bool set_capabilities(std::uint64_t capabilities) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  CapabilityData data{};
  for (std::size_t word = 0; word < data.size(); ++word) {
    const auto bits = static_cast<std::uint32_t>(capabilities >> (32 * word));
    data[word].effective = bits;
    data[word].permitted = bits;
  }
  return ::syscall(SYS_capset, &header, data.data()) == 0;
}

bool capabilities_are(std::uint64_t capabilities) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  CapabilityData data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  for (std::size_t word = 0; word < data.size(); ++word) {
    const auto bits = static_cast<std::uint32_t>(capabilities >> (32 * word));
    if (data[word].effective != bits || data[word].permitted != bits || data[word].inheritable != 0)
      return false;
  }
  return true;
}

// A process that is not dumpable, as all from the agent's unreadable program are, does not own its
// files in /proc (proc(5), ownership): it becomes so for the moment of the open. Before the sandbox
// user's rights are taken, so that no command may trace it meanwhile (ptrace(2), access mode).
int open_oom_score() noexcept {
  if (::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return -1;
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  const int error = errno;
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 && file >= 0) {
    ::close(file);
    return -1;
  }
  errno = error;
  return file;
}

StepError raise_oom_score() noexcept {
  const int file = open_oom_score();
  if (file < 0) return failed("open oom_score_adj");
  const bool written =
      ::write(file, command_oom_score_adj.data(), command_oom_score_adj.size()) > 0;
  const StepError error = written ? StepError{} : failed("write oom_score_adj");
  ::close(file);
  return error;
}

StepError set_limits(const Confinement& confinement) noexcept {
  const rlimit no_core{0, 0};
  if (::setrlimit(RLIMIT_CORE, &no_core) != 0) return failed("setrlimit core");
  if (confinement.max_processes != 0) {
    rlimit processes{};
    if (::getrlimit(RLIMIT_NPROC, &processes) != 0) return failed("getrlimit nproc");
    processes.rlim_max = std::min<rlim_t>(processes.rlim_max, confinement.max_processes);
    processes.rlim_cur = processes.rlim_max;
    if (::setrlimit(RLIMIT_NPROC, &processes) != 0) return failed("setrlimit nproc");
  }
  return raise_oom_score();
}

StepError load_filter(const Confinement& confinement) noexcept {
  const sock_fprog program{static_cast<unsigned short>(confinement.filter.size()),
                           const_cast<sock_filter*>(confinement.filter.data())};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) return failed("seccomp");
  return {};
}

StepError set_identity(const Confinement& confinement, std::uint64_t capabilities) noexcept {
  if (::syscall(SYS_setgroups, 0, nullptr) != 0) return failed("setgroups");
  if (::syscall(SYS_setresgid, confinement.gid, confinement.gid, confinement.gid) != 0)
    return failed("setresgid");
  if (::syscall(SYS_setresuid, confinement.uid, confinement.uid, confinement.uid) != 0)
    return failed("setresuid");
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    return failed("clear ambient capabilities");
  if (!set_capabilities(capabilities)) return failed("capset");
  return {};
}

StepError verify(const Confinement& confinement, std::uint64_t capabilities) noexcept {
  uid_t uid[3]{};
  gid_t gid[3]{};
  if (::getresuid(&uid[0], &uid[1], &uid[2]) != 0 || ::getresgid(&gid[0], &gid[1], &gid[2]) != 0)
    return failed("getresuid");
  for (int index = 0; index < 3; ++index)
    if (uid[index] != confinement.uid || gid[index] != confinement.gid)
      return not_in_force("verify identity");
  if (!capabilities_are(capabilities)) return not_in_force("verify capabilities");
  const int expected = confinement.privilege_gain == PrivilegeGain::denied ? 1 : 0;
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) < expected)
    return not_in_force("verify no_new_privs");
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
    return not_in_force("verify seccomp");
  return {};
}

}  // namespace

std::uint64_t Confinement::bounding_set() const noexcept {
  return uid == 0 || privilege_gain == PrivilegeGain::setuid_only ? container_capabilities : 0;
}

void limit_bounding_set(const Confinement& confinement) {
  const auto kept = confinement.bounding_set();
  for (int capability = 0; capability < 64; ++capability) {
    const int held = ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
    if (held < 0) break;  // above the kernel's last capability (capabilities(7))
    if (held == 0 || (kept & bit(capability)) != 0) continue;
    os::check(::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "prctl PR_CAPBSET_DROP",
              "bounding set");
    if (::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) != 0)
      throw os::Error(EPERM, "prctl PR_CAPBSET_DROP", "not in force");
  }
}

StepError confine(const Confinement& confinement) noexcept {
  if (const auto error = set_limits(confinement); error.step) return error;
  const std::uint64_t capabilities = confinement.uid == 0 ? container_capabilities : 0;
  // Without no_new_privs the filter needs CAP_SYS_ADMIN in the user namespace (seccomp(2)): it goes
  // first there.
  if (confinement.privilege_gain == PrivilegeGain::setuid_only) {
    if (const auto error = load_filter(confinement); error.step) return error;
    if (const auto error = set_identity(confinement, capabilities); error.step) return error;
  } else {
    if (const auto error = set_identity(confinement, capabilities); error.step) return error;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
    if (const auto error = load_filter(confinement); error.step) return error;
  }
  return verify(confinement, capabilities);
}

StepError enter_repo() noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    // Not followed: a link in its place is the user's, and is replaced like a file.
    const int directory = ::open(repo_directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory >= 0) {
      const StepError error =
          ::fchdir(directory) == 0 ? StepError{} : failed("enter /workspace/repo");
      ::close(directory);
      return error;
    }
    if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
      return failed("open /workspace/repo");
    if (errno != ENOENT) ::unlink(repo_directory);
    if (::mkdir(repo_directory, 0755) != 0 && errno != EEXIST)
      return failed("make /workspace/repo");
  }
  return {"open /workspace/repo", ENOTDIR};
}

}  // namespace daiv::agent
