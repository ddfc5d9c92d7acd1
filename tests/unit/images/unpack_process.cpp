#include "unpack_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>

#include "os/directory_entry.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::test {

namespace {

struct Start {
  std::array<int, 4> fds;  // the last may be none
  int unshared;            // write end
  int mapped;              // read end
  const char* program;
  int namespaces;
  std::array<char*, 6> arguments;
};

// In a child of a process with threads: nothing but system calls.
[[noreturn]] void start(const Start& plan) noexcept {
  char byte = 'u';
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int flags = plan.namespaces;
  if (flags != 0 && ::unshare(flags) != 0) ::_exit(101);
  if (::write(plan.unshared, &byte, 1) != 1 || ::read(plan.mapped, &byte, 1) != 1) ::_exit(102);
  if (::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0) ::_exit(103);
  const pid_t child = ::fork();
  if (child != 0) {
    int status = 0;
    ::close_range(3, ~0U, 0);  // or the input's write end, inherited, would keep the input open
    if (child < 0 || ::waitpid(child, &status, 0) != child) ::_exit(104);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 105);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::size_t count = plan.fds[3] < 0 ? 3 : 4;
  std::array<int, 4> high{};
  for (std::size_t i = 0; i < count; ++i) high[i] = ::fcntl(plan.fds[i], F_DUPFD, 100);
  for (std::size_t i = 0; i < count; ++i) ::dup2(high[i], static_cast<int>(3 + i));
  ::execve(plan.program, plan.arguments.data(), &plan.arguments.back());
  ::_exit(106);
}

}  // namespace

UnpackProcess::UnpackProcess(const os::UniqueFd& input, const os::UniqueFd& layer,
                             images::unpack::Limits limits, Namespaces namespaces,
                             const os::UniqueFd& parents, bool above_others) {
  os::set_owner(layer, storage_uid_base, storage_uid_base);
  const char* program = std::getenv("DAIV_UNPACK_PROGRAM");
  if (program == nullptr) throw os::Error(ENOENT, "getenv", "DAIV_UNPACK_PROGRAM");
  os::Pipe result = os::make_pipe();
  os::Pipe unshared = os::make_pipe();
  os::Pipe mapped = os::make_pipe();
  std::string name = "daiv-sandbox-unpack";
  std::string bytes = fmt::format("--max-bytes={}", limits.max_bytes);
  std::string entries = fmt::format("--max-entries={}", limits.max_entries);
  const int flags = namespaces == Namespaces::none
                        ? 0
                        : CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC;
  std::string with_parents = "--parents";
  std::string with_others = "--above-others";
  std::array<char*, 6> arguments{name.data(), bytes.data(), entries.data()};
  std::size_t count = 3;
  if (parents) arguments.at(count++) = with_parents.data();
  if (above_others) arguments.at(count++) = with_others.data();
  const Start plan{{input.get(), result.write_end.get(), layer.get(), parents ? parents.get() : -1},
                   unshared.write_end.get(),
                   mapped.read_end.get(),
                   program,
                   flags,
                   arguments};
  pid_ = os::check(::fork(), "fork", "unpacker");
  if (pid_ == 0) start(plan);
  unshared.write_end.reset();
  std::byte byte{};
  if (os::read_some(unshared.read_end, std::span(&byte, 1)) != 1)
    throw os::Error(EPERM, "unshare", "unpacker");
  if (flags != 0) write_maps();
  os::write_full(mapped.write_end, "m");
  result_ = std::move(result.read_end);
}

void UnpackProcess::write_maps() const {
  for (const char* map : {"uid_map", "gid_map"}) {
    const auto file = os::open_file(fmt::format("/proc/{}/{}", pid_, map), O_WRONLY);
    os::write_full(file, fmt::format("0 {} 65536", storage_uid_base));
  }
}

UnpackProcess::~UnpackProcess() {
  if (pid_ < 0) return;
  kill();
  ::waitpid(pid_, nullptr, 0);
}

void UnpackProcess::kill() { ::kill(pid_, SIGKILL); }

images::unpack::Result UnpackProcess::wait() {
  const std::string record = os::read_all(result_, 1 << 20);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  try {
    return images::unpack::decode_result(record);
  } catch (const std::exception&) {
    images::unpack::Result result;
    result.message = fmt::format("no record (wait status {})", status);
    return result;
  }
}

}  // namespace daiv::test
