#include "os/namespace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <vector>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/process.hpp"

namespace daiv::os {
namespace {

constexpr std::size_t holder_stack_bytes = 64U << 10;

// Waits to be killed. It shares the memory of its parent, so it touches nothing. Not by pause(2),
// which newer architectures, as arm64, have not.
int hold_namespace(void*) {
  for (;;) ::syscall(SYS_ppoll, nullptr, 0, nullptr, nullptr, 0);
}

}  // namespace

std::string format_id_map(std::span<const IdExtent> extents) {
  std::string text;
  for (const IdExtent& extent : extents)
    text += fmt::format("{} {} {}\n", extent.inside, extent.outside, extent.count);
  return text;
}

void write_id_maps(pid_t pid, std::span<const IdExtent> uids, std::span<const IdExtent> gids) {
  const UniqueFd process = open_file(fmt::format("/proc/{}", pid), O_PATH | O_DIRECTORY);
  write_value(process, "uid_map", format_id_map(uids));
  write_value(process, "gid_map", format_id_map(gids));
}

UniqueFd make_user_namespace(std::span<const IdExtent> extents) {
  // A process that shares our memory costs no copy of the page tables: it lives for a few system
  // calls only.
  std::vector<char> stack(holder_stack_bytes);
  int pidfd = -1;
  const int pid = check(::clone(hold_namespace, stack.data() + stack.size(),
                                CLONE_NEWUSER | CLONE_VM | CLONE_PIDFD | SIGCHLD, nullptr, &pidfd),
                        "clone", "user namespace");
  const Child holder(pid, UniqueFd(pidfd));  // killed and reaped on every way out
  write_id_maps(pid, extents, extents);
  return open_file(fmt::format("/proc/{}/ns/user", pid), O_RDONLY);
}

void unshare(int flags) { check(::unshare(flags), "unshare", fmt::format("{:#x}", flags)); }

void set_hostname(const std::string& name) {
  check(::sethostname(name.data(), name.size()), "sethostname", name);
}

void bring_loopback_up() {
  const UniqueFd socket(
      check(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket", "loopback"));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  check(::ioctl(socket.get(), SIOCSIFFLAGS, &request), "ioctl SIOCSIFFLAGS", "lo");
}

}  // namespace daiv::os
