#include "cli/broker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"

namespace daiv::cli {
namespace {

constexpr int broker_socket_fd = 3;
constexpr int exec_failed_status = 127;

std::vector<char*> to_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const auto& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Read by test builds of the broker alone (DAIV_SANDBOX_ATTACK_WITHOUT); every other build ignores
// it.
std::vector<std::string> plan_broker_environment() {
  std::vector<std::string> environment{
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  constexpr const char* switches = "DAIV_SANDBOX_ATTACK_WITHOUT";
  if (const char* value = std::getenv(switches))
    environment.push_back(fmt::format("{}={}", switches, value));
  return environment;
}

// Runs in the child; everything it needs was made before the fork.
[[noreturn]] void become_broker(int socket, const char* program, char* const* arguments,
                                char* const* environment) noexcept {
  // dup2(2) leaves close-on-exec off, but does nothing where the number is right already.
  const int moved =
      socket == broker_socket_fd ? ::fcntl(socket, F_SETFD, 0) : ::dup2(socket, broker_socket_fd);
  if (moved >= 0) {
    ::syscall(SYS_close_range, broker_socket_fd + 1, ~0U, 0);
    ::execve(program, arguments, environment);
  }
  const char* reason = std::strerror(errno);
  [[maybe_unused]] const auto told = ::write(STDERR_FILENO, reason, std::strlen(reason));
  ::_exit(exec_failed_status);
}

}  // namespace

std::vector<std::string> plan_broker_arguments(const Settings& settings, const User& front,
                                               const ProgramPaths& programs) {
  return {
      "daiv-sandbox-broker",
      fmt::format("--socket-fd={}", broker_socket_fd),
      fmt::format("--state-dir={}", settings.state_dir),
      fmt::format("--runtime-dir={}", settings.runtime_dir),
      fmt::format("--uid-start={}", settings.uid_start),
      fmt::format("--uid-count={}", settings.uid_count),
      fmt::format("--front-uid={}", front.uid),
      fmt::format("--front-gid={}", front.gid),
      fmt::format("--agent={}", programs.agent),
      fmt::format("--unpack={}", programs.unpack),
      fmt::format("--cgroup-root={}", settings.cgroup_root),
      fmt::format("--egress-subnet={}", settings.egress_subnet),
  };
}

BrokerProcess start_broker(const std::vector<std::string>& arguments, const std::string& program) {
  auto [ours, theirs] = os::make_socket_pair(os::SocketKind::seqpacket);
  const std::vector<std::string> environment = plan_broker_environment();
  const std::vector<char*> argument_pointers = to_pointers(arguments);
  const std::vector<char*> environment_pointers = to_pointers(environment);
  const pid_t child = os::check(::fork(), "fork", "broker");
  if (child == 0) {
    become_broker(theirs.get(), program.c_str(), argument_pointers.data(),
                  environment_pointers.data());
  }
  BrokerProcess broker;
  broker.pid = child;
  broker.pidfd = os::UniqueFd(
      static_cast<int>(os::check(::syscall(SYS_pidfd_open, child, 0), "pidfd_open", "broker")));
  broker.socket = std::move(ours);
  return broker;
}

}  // namespace daiv::cli
