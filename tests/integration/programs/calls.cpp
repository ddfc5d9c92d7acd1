// Makes one system call after the other and prints what came of each: "name ok" or "name EPERM".
// Static and without a library's help, so that it runs in any image and nothing stands between it
// and the kernel. Anything that would harm is asked for in a way that cannot succeed.

#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

void say(const char* name, long result) {
  std::printf("%s %s\n", name, result >= 0 ? "ok" : strerrorname_np(static_cast<int>(-result)));
  std::fflush(stdout);
}

template <typename... Arguments>
long call(long number, Arguments... arguments) {
  const long result = ::syscall(number, arguments...);
  return result < 0 ? -errno : result;
}

// A child that is born where it must not be says nothing and ends.
template <typename... Arguments>
long clone_call(long number, Arguments... arguments) {
  const long result = call(number, arguments...);
  if (result == 0) ::_exit(0);
  if (result > 0) ::waitpid(static_cast<pid_t>(result), nullptr, 0);
  return result;
}

// A debugger's first steps: the child asks to be traced, stops, and goes on.
long trace_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return -EPERM;
  const long result = call(SYS_ptrace, PTRACE_CONT, child, 0L, 0L);
  ::waitpid(child, &status, 0);
  return result;
}

void call_native() {
  say("socket-inet", call(SYS_socket, AF_INET, SOCK_STREAM, 0));
  say("socket-unix", call(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
  say("socket-netlink", call(SYS_socket, AF_NETLINK, SOCK_RAW, 0));
  say("socket-packet", call(SYS_socket, AF_PACKET, SOCK_RAW, 0));
  say("socket-alg", call(SYS_socket, AF_ALG, SOCK_SEQPACKET, 0));
  say("socket-vsock", call(SYS_socket, AF_VSOCK, SOCK_STREAM, 0));
  say("unshare-user", call(SYS_unshare, CLONE_NEWUSER));
  say("clone-user", clone_call(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0L, 0L, 0L, 0L));
  say("clone-net", clone_call(SYS_clone, CLONE_NEWNET | SIGCHLD, 0L, 0L, 0L, 0L));
  say("clone-plain", clone_call(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L));
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  say("clone3", clone_call(SYS_clone3, &arguments, sizeof arguments));
  say("setns", call(SYS_setns, -1, 0));
  say("keyctl", call(SYS_keyctl, 0L, -3L, 0L, 0L, 0L));
  say("add_key", call(SYS_add_key, "user", "name", "x", 1L, -3L));
  say("request_key", call(SYS_request_key, "user", "name", nullptr, -3L));
  say("bpf", call(SYS_bpf, 5L, nullptr, 0L));
  say("perf_event_open", call(SYS_perf_event_open, nullptr, 0L, -1L, -1L, 0L));
  say("userfaultfd", call(SYS_userfaultfd, 0L));
  say("io_uring_setup", call(SYS_io_uring_setup, 1L, nullptr));
  say("mount", call(SYS_mount, "none", "/tmp", "tmpfs", 0L, nullptr));
  say("umount2", call(SYS_umount2, "/tmp", 0L));
  say("pivot_root", call(SYS_pivot_root, "/", "/"));
  say("open_by_handle_at", call(SYS_open_by_handle_at, -1, nullptr, 0L));
  say("init_module", call(SYS_init_module, nullptr, 0L, nullptr));
  say("ptrace-child", trace_child());
  say("personality-query", call(SYS_personality, 0xffffffffUL));
  say("personality-linux", call(SYS_personality, static_cast<long>(PER_LINUX)));
  say("personality-no-randomize", call(SYS_personality, static_cast<long>(ADDR_NO_RANDOMIZE)));
}

#if defined(__x86_64__)
constexpr long x32_bit = 0x40000000;

// Through the gate of 32-bit programs, with the numbers of theirs (syscall_32.tbl).
long call_i386(long number, long first, long second = 0, long third = 0) {
  long result = 0;
  asm volatile("int $0x80"
               : "=a"(result)
               : "a"(number), "b"(first), "c"(second), "d"(third), "S"(0L), "D"(0L)
               : "memory", "r8", "r9", "r10", "r11");
  return static_cast<std::int32_t>(result);
}

void call_x32() {
  say("x32-getpid", call(x32_bit | SYS_getpid));
  say("x32-unshare", call(x32_bit | SYS_unshare, CLONE_NEWUSER));
}

// A kernel without IA32 emulation answers the gate with SIGSEGV: then there is none to guard. Only
// a child can find out.
bool has_i386_gate() {
  const pid_t child = ::fork();
  if (child == 0) {
    call_i386(20 /* getpid */, 0);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return !(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

void call_i386_gate() {
  constexpr long i386_getpid = 20, i386_mount = 21, i386_socketcall = 102, i386_clone = 120;
  constexpr long i386_unshare = 310, i386_socket = 359;
  say("i386-getpid", call_i386(i386_getpid, 0));
  say("i386-mount", call_i386(i386_mount, 0));
  // The family lies in memory, below 4 GiB for the 32-bit pointer.
  constexpr long call_socket = 1;
  auto* family = static_cast<std::uint32_t*>(::mmap(
      nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
  family[0] = AF_ALG;
  family[1] = SOCK_SEQPACKET;
  const auto address = static_cast<long>(reinterpret_cast<std::uintptr_t>(family));
  say("i386-socketcall", call_i386(i386_socketcall, call_socket, address));
  say("i386-socket-inet", call_i386(i386_socket, AF_INET, SOCK_STREAM));
  say("i386-socket-alg", call_i386(i386_socket, AF_ALG, SOCK_SEQPACKET));
  say("i386-unshare-user", call_i386(i386_unshare, CLONE_NEWUSER));
  say("i386-clone-user", call_i386(i386_clone, CLONE_NEWUSER | SIGCHLD));
}
#endif

}  // namespace

int main() {
  call_native();
#if defined(__x86_64__)
  call_x32();
  if (has_i386_gate()) call_i386_gate();
#endif
}
