#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "os/unique_fd.hpp"

// Processes by pidfd (clone3(2), pidfd_open(2), waitid(2)). Only single-threaded processes may call
// clone_process. Everything throws os::Error unless said otherwise.
namespace daiv::os {

// How a process ended.
struct ExitStatus {
  enum class Kind : std::uint8_t { exited, signalled };
  Kind kind = Kind::exited;
  int code = 0;  // exit status, or the signal's number

  [[nodiscard]] bool success() const noexcept { return kind == Kind::exited && code == 0; }
  // "exit status 1" or "signal 9".
  [[nodiscard]] std::string describe() const;
};

// A child process, by pidfd. The destructor kills it with SIGKILL and reaps it.
class Child {
public:
  Child() noexcept = default;
  Child(pid_t pid, UniqueFd pidfd) noexcept : pid_(pid), pidfd_(std::move(pidfd)) {}
  Child(Child&& other) noexcept = default;
  Child& operator=(Child&& other) noexcept;
  ~Child() { discard(); }

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const UniqueFd& pidfd() const noexcept { return pidfd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(pidfd_); }

  // Waits for the end and reaps; the object is empty afterwards.
  ExitStatus wait();
  // Gives up ownership: someone else reaps it.
  UniqueFd release() noexcept { return std::move(pidfd_); }

private:
  void discard() noexcept;

  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

// clone3(2) like fork(2), with CLONE_* `flags` and, if given, born in `cgroup` (an O_PATH
// descriptor of the directory; CLONE_INTO_CGROUP, Linux 5.7). SIGCHLD is the exit signal unless
// CLONE_PARENT is among the flags. In the child the result is empty (false). No atfork handler
// runs.
Child clone_process(std::uint64_t flags, const UniqueFd* cgroup = nullptr);

// Runs `work(argument)` in a child that shares this process's memory and descriptors, and has
// credentials, limits and namespaces of its own; returns when it has ended (CLONE_VM | CLONE_VFORK
// | CLONE_FILES). Without page tables to copy, and to take apart again, it costs a fiftieth of
// clone_process. Whoever is the parent reaps it: with CLONE_PARENT among the flags, ours. `work`
// must not throw, and must leave the stack as it finds it.
void run_in_child(std::uint64_t flags, const UniqueFd* cgroup, void (*work)(void*), void* argument);

// pidfd_open(2); empty where no such process exists.
std::optional<UniqueFd> find_process(pid_t pid);

// pidfd_send_signal(2). A process that has ended already is no error.
void send_signal(const UniqueFd& pidfd, int signal);

enum class Readiness : std::uint8_t { ready, timed_out };
// poll(2) for `events` (POLLIN, POLLPRI …) on one descriptor until the limit; a pidfd is POLLIN
// when the process ended.
Readiness wait_for(const UniqueFd& fd, short events, std::chrono::milliseconds limit);

// Field 22 of /proc/<pid>/stat: with the pid it names one process of this boot. Empty where no such
// process exists.
std::optional<std::uint64_t> find_start_time(pid_t pid);

// Reaps one ended child whatever it is (waitid(2), P_ALL, WNOHANG); empty where none has ended.
struct Reaped {
  pid_t pid;
  ExitStatus status;
};
std::optional<Reaped> reap_any();

// Closes every descriptor from `first` up (close_range(2), Linux 5.9).
void close_from(int first);

}  // namespace daiv::os
