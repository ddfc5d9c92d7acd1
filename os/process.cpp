#include "os/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <string_view>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::os {
namespace {

// P_PIDFD is not in the enumeration of glibc 2.36 in every mode (waitid(2)).
constexpr auto by_pidfd = static_cast<idtype_t>(3);
constexpr std::size_t max_stat_bytes = 4096;
constexpr int start_time_field = 22;

ExitStatus status_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {ExitStatus::Kind::exited, info.si_status};
  return {ExitStatus::Kind::signalled, info.si_status};
}

clone_args plan_clone(std::uint64_t flags, const UniqueFd* cgroup, int& pidfd) {
  clone_args arguments{};
  arguments.flags = flags | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  // With CLONE_PARENT the signal is the parent's own; another one is EINVAL (clone3(2)).
  if ((flags & CLONE_PARENT) == 0) arguments.exit_signal = SIGCHLD;
  if (cgroup != nullptr) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(cgroup->get());
  }
  return arguments;
}

// clone3(2) where the child begins on the stack of its parent, which sleeps (CLONE_VFORK): what the
// child calls lies below this frame. Not by syscall(3), whose own frame, and with it the parent's
// way back, the child would write over (vfork(2)). -1 with errno where it fails.
[[gnu::noinline]] long clone_on_this_stack(clone_args& arguments, void (*work)(void*),
                                           void* argument) {
#if defined(__x86_64__)
  long result = SYS_clone3;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(&arguments), "S"(sizeof arguments)
               : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clone3;
  register long result asm("x0") = reinterpret_cast<long>(&arguments);
  register long size asm("x1") = sizeof arguments;
  asm volatile("svc 0" : "+r"(result) : "r"(number), "r"(size) : "memory");
#else
#error "the system call of this processor is not written down here"
#endif
  if (result == 0) {
    work(argument);
    ::_exit(0);
  }
  if (result > 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace

std::string ExitStatus::describe() const {
  return fmt::format("{} {}", kind == Kind::exited ? "exit status" : "signal", code);
}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    discard();
    pid_ = other.pid_;
    pidfd_ = std::move(other.pidfd_);
  }
  return *this;
}

ExitStatus Child::wait() {
  siginfo_t info{};
  check(retry_eintr(
            [&] { return ::waitid(by_pidfd, static_cast<id_t>(pidfd_.get()), &info, WEXITED); }),
        "waitid", "child");
  pidfd_.reset();
  return status_of(info);
}

void Child::discard() noexcept {
  if (!pidfd_) return;
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  siginfo_t info{};
  retry_eintr([&] { return ::waitid(by_pidfd, static_cast<id_t>(pidfd_.get()), &info, WEXITED); });
  pidfd_.reset();
}

Child clone_process(std::uint64_t flags, const UniqueFd* cgroup) {
  int pidfd = -1;
  clone_args arguments = plan_clone(flags, cgroup, pidfd);
  const long pid = check(::syscall(SYS_clone3, &arguments, sizeof arguments), "clone3", "child");
  if (pid == 0) return {};
  return {static_cast<pid_t>(pid), UniqueFd(pidfd)};
}

void run_in_child(std::uint64_t flags, const UniqueFd* cgroup, void (*work)(void*),
                  void* argument) {
  int pidfd = -1;
  clone_args arguments = plan_clone(flags | CLONE_VM | CLONE_VFORK | CLONE_FILES, cgroup, pidfd);
  check(clone_on_this_stack(arguments, work, argument), "clone3", "child of this memory");
  // It is done with the memory; a moment later it has left its cgroup as well.
  const UniqueFd child(pidfd);
  pollfd entry{child.get(), POLLIN, 0};
  check(retry_eintr([&] { return ::poll(&entry, 1, -1); }), "poll", "child");
}

std::optional<UniqueFd> find_process(pid_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  if (errno == ESRCH) return std::nullopt;
  throw_errno("pidfd_open", std::to_string(pid));
}

void send_signal(const UniqueFd& pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0) return;
  if (errno != ESRCH) throw_errno("pidfd_send_signal", std::to_string(signal));
}

Readiness wait_for(const UniqueFd& fd, short events, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{fd.get(), events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) return Readiness::ready;
    if (ready == 0) return Readiness::timed_out;
    if (errno != EINTR) throw_errno("poll", "descriptor");
  }
}

std::optional<std::uint64_t> find_start_time(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ESRCH) return std::nullopt;
    throw_errno("open", path);
  }
  const std::string text = read_all(fd, max_stat_bytes);
  // The command's name may hold anything, brackets and blanks too: count after its last bracket
  // (proc(5)).
  std::size_t position = text.rfind(')');
  if (position == std::string::npos) throw Error(EBADMSG, "parse", path);
  ++position;
  for (int field = 2; field < start_time_field; ++field) {
    position = text.find(' ', position);
    if (position == std::string::npos) throw Error(EBADMSG, "parse", path);
    ++position;
  }
  // `position` is now behind the blank before field 22: field 3 follows the first blank.
  std::uint64_t ticks = 0;
  const auto [end, error] =
      std::from_chars(text.data() + position, text.data() + text.size(), ticks);
  if (error != std::errc{} || end == text.data() + position) throw Error(EBADMSG, "parse", path);
  return ticks;
}

std::optional<Reaped> reap_any() {
  siginfo_t info{};
  if (retry_eintr([&] { return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG); }) < 0) {
    if (errno == ECHILD) return std::nullopt;
    throw_errno("waitid", "any child");
  }
  if (info.si_pid == 0) return std::nullopt;
  return Reaped{info.si_pid, status_of(info)};
}

void close_from(int first) {
  check(::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U), "close_range", "");
}

}  // namespace daiv::os
