#include "cli/broker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "cli/upstream_network.hpp"
#include "os/attack_switches.hpp"
#include "os/error.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"
#include "runtime/broker_protocol.hpp"

namespace daiv::cli {
namespace {

constexpr int broker_socket_fd = 3;
constexpr int exec_failed_status = 127;
// It may have to remove what a crash left behind.
constexpr std::chrono::milliseconds first_answer_limit = std::chrono::seconds(60);

std::vector<char*> to_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const auto& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> plan_broker_environment(const std::vector<const char*>& kept) {
  std::vector<std::string> environment = os::test_environment();
  environment.emplace_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  for (const char* name : kept)
    if (const char* value = std::getenv(name))
      environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

// Empty: upstream connections don't leave through one.
std::string name_upstream_namespace(const Settings& settings) {
  const UpstreamNetwork network = find_upstream_network(settings);
  return network.kind == UpstreamNetwork::Kind::network_namespace ? network.name : std::string();
}

// Returns where it failed, with errno. Runs in a child as well; everything it needs was made before
// the fork.
void execute(int socket, const char* program, char* const* arguments,
             char* const* environment) noexcept {
  // dup2(2) leaves close-on-exec off, but does nothing where the number is right already.
  const int moved =
      socket == broker_socket_fd ? ::fcntl(socket, F_SETFD, 0) : ::dup2(socket, broker_socket_fd);
  if (moved >= 0) {
    ::syscall(SYS_close_range, broker_socket_fd + 1, ~0U, 0);
    ::execve(program, arguments, environment);
  }
}

// Throws where the answer is no answer: the broker is of another version.
void await_first_answer(const os::UniqueFd& socket) {
  os::send_message(socket, encode(runtime::RequestMessage{0, runtime::ListSandboxes{}}));
  if (os::wait_for(socket, POLLIN, first_answer_limit) == os::Readiness::timed_out)
    throw os::Error(ETIMEDOUT, "wait", "the broker's first answer");
  const auto message = os::receive_message(socket, runtime::max_broker_message_bytes);
  if (!message) throw os::Error(EPIPE, "recvmsg", "the broker ended before it answered");
  runtime::decode_answer(message->data);
}

}  // namespace

std::vector<std::string> plan_broker_arguments(const Settings& settings, const User& front,
                                               const ProgramPaths& programs, BrokerSocket kind) {
  return {
      "daiv-sandbox-broker",
      fmt::format("--{}={}", kind == BrokerSocket::listening ? "listener-fd" : "socket-fd",
                  broker_socket_fd),
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
      fmt::format("--egress-netns={}", name_upstream_namespace(settings)),
      fmt::format("--session-disk-bytes={}", settings.session_disk_bytes),
      fmt::format("--min-free-disk-bytes={}", settings.min_free_disk_bytes),
  };
}

BrokerProcess start_broker(const std::vector<std::string>& arguments, const std::string& program) {
  auto [ours, theirs] = os::make_socket_pair(os::SocketKind::seqpacket);
  const std::vector<std::string> environment = plan_broker_environment({});
  const std::vector<char*> argument_pointers = to_pointers(arguments);
  const std::vector<char*> environment_pointers = to_pointers(environment);
  const pid_t child = os::check(::fork(), "fork", "broker");
  if (child == 0) {
    execute(theirs.get(), program.c_str(), argument_pointers.data(), environment_pointers.data());
    const char* reason = std::strerror(errno);
    [[maybe_unused]] const auto told = ::write(STDERR_FILENO, reason, std::strlen(reason));
    ::_exit(exec_failed_status);
  }
  BrokerProcess broker;
  broker.pid = child;
  broker.socket = std::move(ours);
  return broker;
}

void become_broker(os::UniqueFd listener, const std::vector<std::string>& arguments,
                   const std::string& program) {
  const std::vector<std::string> environment =
      plan_broker_environment({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"});
  execute(listener.get(), program.c_str(), to_pointers(arguments).data(),
          to_pointers(environment).data());
  os::throw_errno("execve", program);
}

BrokerProcess connect_to_broker(const std::string& path) {
  try {
    BrokerProcess broker;
    broker.socket = os::connect_unix(path, os::SocketKind::seqpacket);
    await_first_answer(broker.socket);
    return broker;
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("DAIV_SANDBOX_BROKER_SOCKET: no broker answers at {}: {} (look at the log of "
                    "daiv-sandbox-broker.service)",
                    path, error.what()));
  }
}

}  // namespace daiv::cli
