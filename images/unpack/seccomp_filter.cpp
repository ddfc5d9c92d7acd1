#include "images/unpack/seccomp_filter.hpp"

#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "os/error.hpp"

namespace daiv::images::unpack {

namespace {

struct ReleaseFilter {
  void operator()(void* filter) const noexcept { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, ReleaseFilter>;

constexpr std::array allowed = {
    // descriptors and files
    "eventfd2", "read", "readv", "write", "writev", "pwrite64", "lseek", "close", "poll", "ppoll",
    "fcntl", "openat", "openat2", "fstat", "newfstatat", "fstatat64", "statx", "getdents64",
    "readlinkat", "mkdirat", "mknodat", "linkat", "symlinkat", "unlinkat", "fchown", "fchownat",
    "fchmod", "ftruncate", "utimensat", "fsetxattr", "fgetxattr", "flistxattr",
    // memory, but executable memory
    "brk", "munmap", "mremap", "madvise",
    // threads and time
    "futex", "set_robust_list", "rseq", "gettid", "getpid", "sched_yield", "sched_getaffinity",
    "clock_gettime", "clock_nanosleep", "getrandom", "rt_sigaction", "rt_sigprocmask",
    "rt_sigreturn", "sigaltstack", "restart_syscall", "membarrier",
    // the end
    "exit", "exit_group", "tgkill"};

void check(int result, const char* call) {
  if (result < 0)
    throw os::Error(-result, "seccomp",
                    call);  // libseccomp gives negative errnos (seccomp_init(3))
}

// Not every architecture has every call: one that has no number here cannot be made here.
void add(scmp_filter_ctx filter, std::uint32_t action, const char* name) {
  const int number = ::seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) return;
  check(::seccomp_rule_add(filter, action, number, 0), name);
}

void add_where(scmp_filter_ctx filter, const char* name, scmp_arg_cmp condition) {
  check(::seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, ::seccomp_syscall_resolve_name(name), 1,
                                 &condition),
        name);
}

scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

}  // namespace

void load_seccomp_filter() {
  const Filter filter(::seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (!filter) throw os::Error(ENOMEM, "seccomp_init", "filter");
  for (const char* name : allowed) add(filter.get(), SCMP_ACT_ALLOW, name);
  add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), "clone3");
  add_where(filter.get(), "clone", masked(0, CLONE_THREAD, CLONE_THREAD));
  add_where(filter.get(), "mmap", masked(2, PROT_EXEC, 0));
  add_where(filter.get(), "mprotect", masked(2, PROT_EXEC, 0));
  check(::seccomp_load(filter.get()), "load");
}

}  // namespace daiv::images::unpack
