// A stand-in for the agent in tests of the runtime: PID 1 that answers one line per connection with
// what it sees. Lines: "read PATH", "list PATH", "link PATH", "stat PATH", "write PATH", "fork N",
// "interfaces", "environment",
// "hold PATH", "mount TYPE", "storm". CONFIG "fail" ends it with an error text before it is ready,
// "die" without one.

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "wire/sandbox_abi.hpp"

namespace {

std::string failure(const char* call) {
  return std::string("error ") + call + " " + strerrorname_np(errno);
}

std::string read_fd(int fd) {
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t count = ::read(fd, chunk.data(), chunk.size());
    if (count < 0) return failure("read");
    if (count == 0 || text.size() > 1'000'000) return text;
    text.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

std::string read_path(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failure("open");
  std::string text = read_fd(fd);
  ::close(fd);
  return text;
}

std::string list(const std::string& path) {
  DIR* stream = ::opendir(path.c_str());
  if (stream == nullptr) return failure("opendir");
  std::string names;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && name != std::to_string(::dirfd(stream)))
      names += name + "\n";
  }
  ::closedir(stream);
  return names;
}

std::string link(const std::string& path) {
  std::array<char, 4096> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  return size < 0 ? failure("readlink")
                  : std::string(target.data(), static_cast<std::size_t>(size));
}

std::string status(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return failure("lstat");
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "%o %u %u %u:%u", status.st_mode, status.st_uid,
                status.st_gid, major(status.st_rdev), minor(status.st_rdev));
  return text.data();
}

std::string write_path(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return failure("open");
  const bool good = ::write(fd, "x", 1) == 1;
  const std::string answer = good ? "ok" : failure("write");
  ::close(fd);
  return answer;
}

// Leaves the file open.
std::string hold(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return fd < 0 ? failure("open") : std::to_string(fd);
}

std::string mount_type(const std::string& type) {
  return ::mount("none", "/tmp", type.c_str(), 0, nullptr) == 0 ? "ok" : failure("mount");
}

std::string fork_sleepers(int count) {
  for (int made = 0; made < count; ++made) {
    const pid_t pid = ::fork();
    if (pid < 0) return std::string(strerrorname_np(errno)) + " " + std::to_string(made);
    if (pid > 0) continue;
    ::setsid();
    ::close_range(0, ~0U, 0);  // else the asker would wait for the end of its connection
    for (;;) ::pause();
  }
  return "ok " + std::to_string(count);
}

// A process that forks without end, and so do its children.
std::string storm() {
  if (::fork() == 0) {
    ::setsid();
    ::close_range(0, ~0U, 0);
    for (;;) ::fork();
  }
  return "ok";
}

std::string interfaces() {
  const int probe = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::string names;
  struct if_nameindex* all = ::if_nameindex();
  for (auto* entry = all; entry != nullptr && entry->if_index != 0; ++entry)
    names += std::string(entry->if_name) + "\n";
  ::close(probe);
  return names;
}

std::string answer(const std::string& line) {
  const std::size_t blank = line.find(' ');
  const std::string verb = line.substr(0, blank);
  const std::string rest = blank == std::string::npos ? "" : line.substr(blank + 1);
  if (verb == "read") return read_path(rest);
  if (verb == "list") return list(rest);
  if (verb == "link") return link(rest);
  if (verb == "stat") return status(rest);
  if (verb == "write") return write_path(rest);
  if (verb == "hold") return hold(rest);
  if (verb == "mount") return mount_type(rest);
  if (verb == "fork") return fork_sleepers(std::atoi(rest.c_str()));
  if (verb == "storm") return storm();
  if (verb == "interfaces") return interfaces();
  if (verb == "environment") return *environ == nullptr ? "" : *environ;
  return "error unknown";
}

void tell_status(const char* text) {
  static_cast<void>(!::write(daiv::wire::agent_status_fd, text, std::strlen(text)));
  ::close(daiv::wire::agent_status_fd);
}

}  // namespace

int main() {
  using namespace daiv::wire;
  ::signal(SIGCHLD, SIG_IGN);
  for (int fd = agent_listener_fd; fd <= agent_status_fd; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const std::string config = read_fd(agent_config_fd);
  if (config == "fail") {
    tell_status("config says fail");
    return 1;
  }
  if (config == "die") return 1;
  tell_status("r");
  for (;;) {
    const int connection = ::accept4(agent_listener_fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    std::array<char, 4096> line{};
    const ssize_t size = ::read(connection, line.data(), line.size());
    const std::string text =
        answer(std::string(line.data(), static_cast<std::size_t>(size > 0 ? size : 0)));
    static_cast<void>(!::write(connection, text.data(), text.size()));
    ::close(connection);
  }
}
