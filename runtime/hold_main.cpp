#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/service_manager.hpp"
#include "runtime/cgroup.hpp"
#include "runtime/hold.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t max_proc_file_bytes = 16U << 20;

std::string find_own_cgroup() {
  const auto mount = find_cgroup2_mount(os::read_file("/proc/self/mountinfo", max_proc_file_bytes));
  if (!mount) throw os::Error(ENOENT, "find", "a cgroup2 mount");
  const auto path = find_cgroup2_path(os::read_file("/proc/self/cgroup", max_proc_file_bytes));
  if (!path || *path == "/") throw os::Error(ENOENT, "find", "a cgroup of a unit");
  return *mount + *path;
}

}  // namespace
}  // namespace daiv::runtime

// The program of daiv-sandbox-sessions.service: sets its unit's cgroup up and waits for SIGTERM.
int main() {
  using namespace daiv;
  sigset_t ending;
  ::sigemptyset(&ending);
  ::sigaddset(&ending, SIGTERM);
  ::sigaddset(&ending, SIGINT);
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  try {
    runtime::hold_cgroup(runtime::find_own_cgroup());
    os::notify_manager("READY=1\nSTATUS=holding the sessions' cgroups");
  } catch (const std::exception& error) {
    fmt::print(stderr, "daiv-sandbox-hold: {}\n", error.what());
    return 1;
  }
  int signal = 0;
  ::sigwait(&ending, &signal);
  return 0;
}
