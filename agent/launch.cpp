#include "agent/launch.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "agent/shell.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

// What goes over the failure pipe; no pointer, though the child is a copy of this process.
struct FailureMessage {
  std::array<char, 60> step;
  int error;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

pid_t copy_process(const Leaf* leaf) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  if (leaf != nullptr) {
    args.flags = CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(leaf->directory().get());
  }
  return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
}

StepError set_streams(const LaunchPlan& plan) noexcept {
  if (::dup2(plan.null.get(), STDIN_FILENO) < 0 || ::dup2(plan.output.get(), STDOUT_FILENO) < 0 ||
      ::dup2(plan.output.get(), STDERR_FILENO) < 0)
    return {"dup2", errno};
  // All of the agent's descriptors are close-on-exec from birth; this holds if one ever is not.
  if (::syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) != 0)
    return {"close_range", errno};
  if (plan.script != nullptr && ::dup2(plan.script->get(), script_fd) < 0) return {"dup2", errno};
  return {};
}

// Runs in the child; ends in execve or _exit.
[[noreturn]] void become_command(const LaunchPlan& plan, char* const* argv, char* const* envp,
                                 int failure) noexcept {
  const auto fail = [failure](const StepError& error) {
    FailureMessage message{};
    ::strncpy(message.step.data(), error.step, message.step.size() - 1);
    message.error = error.error;
    [[maybe_unused]] const auto ignored = ::write(failure, &message, sizeof message);
    ::_exit(127);
  };
  ::setsid();
  if (const auto error = set_streams(plan); error.step) fail(error);
  ::umask(022);
  if (const auto error = confine(plan.confinement); error.step) fail(error);
  if (const auto error = enter_repo(); error.step) fail(error);
  // The mask is inherited over execve(2); all dispositions are the default ones since the agent's
  // start.
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(argv[0], argv, envp);
  fail({"execve", errno});
  ::_exit(127);
}

}  // namespace

Launched launch(const LaunchPlan& plan) {
  const auto argv = pointers(plan.arguments);
  const auto envp = pointers(plan.environment);
  // Away from script_fd, which the child gives to something else.
  auto [read_end, write_end] = os::make_pipe(O_NONBLOCK);
  os::UniqueFd failure(
      os::check(::fcntl(write_end.get(), F_DUPFD_CLOEXEC, script_fd + 1), "fcntl", "failure pipe"));
  const pid_t pid = os::check(copy_process(plan.leaf), "clone3", plan.arguments.front());
  if (pid == 0) become_command(plan, argv.data(), envp.data(), failure.get());
  return {pid, std::move(read_end)};
}

std::optional<std::string> read_failure(const os::UniqueFd& failure) {
  FailureMessage message{};
  if (::read(failure.get(), &message, sizeof message) != static_cast<ssize_t>(sizeof message))
    return std::nullopt;
  message.step.back() = '\0';
  return std::string(message.step.data()) + ": " + os::describe_errno(message.error);
}

}  // namespace daiv::agent
