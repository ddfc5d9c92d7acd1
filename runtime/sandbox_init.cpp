#include "runtime/sandbox_init.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <vector>

#include "os/attack_switches.hpp"
#include "os/crash_point.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/mount.hpp"
#include "os/namespace.hpp"
#include "os/process.hpp"
#include "runtime/capabilities.hpp"
#include "runtime/resource_view.hpp"
#include "runtime/rootfs.hpp"
#include "runtime/sandbox_plan.hpp"
#include "wire/sandbox_abi.hpp"

namespace daiv::runtime {
namespace {

constexpr int program_fd = 8;
constexpr int error_fd = 9;
constexpr int first_closed_fd = 10;
constexpr int first_high_fd = 32;  // above every number that is given out below
constexpr rlim_t soft_open_files =
    1024;  // select(2) works up to there; programs that need more raise it
constexpr rlim_t hard_open_files = 524'288;
constexpr std::size_t max_cpuinfo_bytes = 16U << 20;

void wait_for_id_maps(const os::UniqueFd& go) {
  std::array<std::byte, 1> signal{};
  if (os::read_full(go, signal) != 1) throw os::Error(EPIPE, "wait", "id maps");
}

void become_root() {
  os::check(::setgroups(0, nullptr), "setgroups", "none");
  os::check(::setresgid(0, 0, 0), "setresgid", "0");
  os::check(::setresuid(0, 0, 0), "setresuid", "0");
}

// Lowering needs no privilege; where the inherited hard limit is lower, it stays.
void set_limit(int resource, rlim_t soft, rlim_t hard) {
  rlimit limit{};
  const auto kind = static_cast<__rlimit_resource>(resource);
  os::check(::getrlimit(kind, &limit), "getrlimit", std::to_string(resource));
  limit.rlim_max = std::min(limit.rlim_max, hard);
  limit.rlim_cur = std::min(soft, limit.rlim_max);
  os::check(::setrlimit(kind, &limit), "setrlimit", std::to_string(resource));
}

// What is ignored stays so over execve(2): of the broker's signals (runtime/main.cpp) this one, for
// handlers went with CLONE_CLEAR_SIGHAND.
void reset_signals() {
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  os::check(::sigprocmask(SIG_SETMASK, &none, nullptr), "sigprocmask", "none");
}

void drop_privileges(const CreateSandbox& request) {
  if (!os::defence_is_on(os::Defence::dropped_privileges)) return;
  const auto privilege =
      request.no_new_privs ? AgentPrivilege::no_new_privs : AgentPrivilege::setuid_allowed;
  limit_capabilities(plan_agent_capabilities(privilege));
  if (request.no_new_privs) set_no_new_privs();
}

struct Placement {
  const os::UniqueFd* fd;
  int number;
  int flags;
};

// Moves the agreed descriptors to their numbers and closes all others. In two steps, since a
// descriptor may sit on another one's number.
void place_descriptors(const SandboxInit& init) {
  const os::UniqueFd null = os::open_file("/dev/null", O_RDWR);
  const std::array placements{
      Placement{&null, STDIN_FILENO, 0},
      Placement{&null, STDOUT_FILENO, 0},
      Placement{&null, STDERR_FILENO, 0},
      Placement{&init.listener, wire::agent_listener_fd, 0},
      Placement{&init.agent_config, wire::agent_config_fd, 0},
      Placement{&init.seccomp, wire::agent_seccomp_fd, 0},
      Placement{&init.cgroup, wire::agent_cgroup_fd, 0},
      Placement{&init.status, wire::agent_status_fd, 0},
      Placement{&init.agent_program, program_fd, O_CLOEXEC},
      Placement{&init.error, error_fd, O_CLOEXEC},
  };
  std::array<int, placements.size()> high{};
  for (std::size_t index = 0; index < placements.size(); ++index) {
    high[index] = os::check(::fcntl(placements[index].fd->get(), F_DUPFD_CLOEXEC, first_high_fd),
                            "fcntl", "F_DUPFD_CLOEXEC");
  }
  for (std::size_t index = 0; index < placements.size(); ++index) {
    os::check(::dup3(high[index], placements[index].number, placements[index].flags), "dup3",
              std::to_string(placements[index].number));
  }
  if (os::defence_is_on(os::Defence::closed_descriptors)) {
    os::close_from(first_closed_fd);
  } else {
    // NOLINTNEXTLINE(android-cloexec-dup): not close-on-exec, as CVE-2024-21626 had it
    os::check(::dup(init.layers.get()), "dup", "leak");
  }
}

// Nothing is inherited: no environment, no directory, no terminal.
void execute_agent() {
  std::array<char, 6> name{"agent"};
  std::array<char*, 2> arguments{name.data(), nullptr};
  std::array<char*, 1> environment{nullptr};
  ::syscall(SYS_execveat, program_fd, "", arguments.data(), environment.data(), AT_EMPTY_PATH);
  os::throw_errno("execveat", "agent");
}

// A limit of processors is also how many there are to see: by affinity, which nproc(1), the JVM and
// Go ask, and in the files that others read. Returns these.
std::vector<ViewFile> limit_view(const SandboxInit& init) {
  std::string cpuinfo;
  if (!init.processors.empty()) {
    cpuinfo = os::read_file("/proc/cpuinfo", max_cpuinfo_bytes);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const unsigned number : init.processors) CPU_SET(number, &set);
    os::check(::sched_setaffinity(0, sizeof set, &set), "sched_setaffinity", "self");
  }
  return plan_views(init.request.limits, init.processors.size(), cpuinfo);
}

void contain(const SandboxInit& init) {
  wait_for_id_maps(init.go);
  become_root();
  ::umask(0022);
  os::make_mounts_private();
  os::set_hostname(init.request.hostname);
  os::bring_loopback_up();
  const std::vector<ViewFile> views = limit_view(init);  // the host's /proc is still there
  const os::UniqueFd root = mount_overlay(init.layers, init.session, init.overlay_options);
  mount_system_directories(root, views);
  make_session_files(root, init.request);
  os::pivot_root_to(root);
  ::setsid();
  reset_signals();
  set_limit(RLIMIT_CORE, 0, 0);
  set_limit(RLIMIT_NOFILE, soft_open_files, hard_open_files);
}

// After the descriptors have their places the members of `init` name other files.
void report(int fd, const char* text) noexcept {
  const std::string_view message = text;
  static_cast<void>(!::write(fd, message.data(), message.size()));
}

}  // namespace

void run_sandbox_init(const SandboxInit& init) noexcept {
  int error = init.error.get();
  try {
    os::crash_point("init.begin");
    contain(init);
    os::crash_point("init.contained");
    place_descriptors(init);
    error = error_fd;
    drop_privileges(init.request);
    os::crash_point("init.before_agent");
    execute_agent();
  } catch (const std::exception& failure) {
    report(error, failure.what());
  }
  ::_exit(1);
}

}  // namespace daiv::runtime
