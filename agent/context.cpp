#include "agent/context.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <utility>

#include "agent/launch.hpp"
#include "os/error.hpp"

namespace daiv::agent {
namespace {

constexpr int max_probe_ms = 1000;

// Waits for a child that the reaper has not seen; kills it after max_probe_ms.
bool exits_with_zero(pid_t pid) {
  const os::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd waited{process.get(), POLLIN, 0};
  if (!process || os::retry_eintr([&] { return ::poll(&waited, 1, max_probe_ms); }) <= 0)
    ::kill(pid, SIGKILL);
  siginfo_t info{};
  os::retry_eintr([&] { return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED); });
  return info.si_code == CLD_EXITED && info.si_status == 0;
}

bool probe(const Context& context, const std::vector<std::string>& arguments) {
  const auto launched = launch({.confinement = context.confinement,
                                .arguments = arguments,
                                .environment = context.config.environment,
                                .null = context.null,
                                .output = context.null,
                                .script = nullptr,
                                .leaf = context.cgroups.workers()});
  return exits_with_zero(launched.pid);
}

}  // namespace

Context::Context(Config config_, Confinement confinement_, os::UniqueFd null_, os::UniqueFd cgroup)
    : config(std::move(config_)),
      confinement(std::move(confinement_)),
      null(std::move(null_)),
      reaper(loop),
      cgroups(std::move(cgroup)),
      shells([this](const std::vector<std::string>& arguments) { return probe(*this, arguments); }),
      drains(loop),
      buffer(new char[frame_header_bytes + chunk_bytes]) {
}  // not filled: untouched pages cost nothing

}  // namespace daiv::agent
