#include "cli/privileges.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>

#include "os/error.hpp"

namespace daiv::cli {
namespace {

constexpr int highest_capability = 63;

// After a change from uid 0 the kernel has cleared the effective, permitted and ambient sets
// already (capabilities(7)); the bounding set goes while it still can.
void drop_bounding_set() {
  for (int capability = 0; capability <= highest_capability; ++capability) {
    if (::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) != 1) continue;
    os::check(::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "prctl PR_CAPBSET_DROP",
              std::to_string(capability));
  }
}

void clear_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  os::check(::syscall(SYS_capset, &header, none.data()), "capset", "all");
}

void verify(const User& user) {
  uid_t real = 0;
  uid_t effective = 0;
  uid_t saved = 0;
  os::check(::getresuid(&real, &effective, &saved), "getresuid", user.name);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> held{};
  os::check(::syscall(SYS_capget, &header, held.data()), "capget", "all");
  bool clean = real == user.uid && effective == user.uid && saved == user.uid;
  for (const auto& part : held)
    clean = clean && part.effective == 0 && part.permitted == 0 && part.inheritable == 0;
  clean = clean && ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
          ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
  // There must be no way back (setresuid(2)).
  clean = clean && ::setresuid(0, 0, 0) != 0 && errno == EPERM;
  if (!clean) throw os::Error(EPERM, "verify dropped privileges", user.name);
}

}  // namespace

User find_user(const std::string& name) {
  errno = 0;
  const passwd* entry = ::getpwnam(name.c_str());  // before any thread is started
  if (entry == nullptr) {
    throw std::runtime_error(
        fmt::format("there is no user {0}; make it with: useradd --system --user-group "
                    "--no-create-home --shell /usr/sbin/nologin {0}",
                    name));
  }
  if (entry->pw_uid == 0)
    throw std::runtime_error(fmt::format("DAIV_SANDBOX_USER={}: must not be root", name));
  return {name, entry->pw_uid, entry->pw_gid};
}

void become_user(const User& user) {
  drop_bounding_set();
  os::check(::setgroups(0, nullptr), "setgroups", user.name);
  os::check(::setresgid(user.gid, user.gid, user.gid), "setresgid", user.name);
  os::check(::setresuid(user.uid, user.uid, user.uid), "setresuid", user.name);
  stay_user(user);
}

void stay_user(const User& user) {
  clear_capabilities();
  os::check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl PR_SET_NO_NEW_PRIVS", "front");
  os::check(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl PR_SET_DUMPABLE", "front");
  verify(user);
}

void raise_descriptor_limit() {
  rlimit limit{};
  os::check(::getrlimit(RLIMIT_NOFILE, &limit), "getrlimit", "RLIMIT_NOFILE");
  limit.rlim_cur = limit.rlim_max;
  os::check(::setrlimit(RLIMIT_NOFILE, &limit), "setrlimit", "RLIMIT_NOFILE");
}

}  // namespace daiv::cli
