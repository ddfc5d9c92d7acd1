#include "runtime/seccomp_filter.hpp"

#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "os/attack_switches.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::runtime {
namespace {

struct ReleaseFilter {
  void operator()(void* filter) const noexcept { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, ReleaseFilter>;

constexpr std::size_t max_filter_bytes =
    4096 * 8;  // BPF_MAXINSNS instructions of struct sock_filter

// libseccomp returns a negative errno (seccomp_rule_add(3)).
void expect(int result, std::string_view call, std::string_view object) {
  if (result < 0) throw os::Error(-result, call, object);
}

void add(const Filter& filter, std::uint32_t action, std::string_view name) {
  const int number = ::seccomp_syscall_resolve_name(std::string(name).c_str());
  if (number == __NR_SCMP_ERROR) return;
  expect(::seccomp_rule_add_array(filter.get(), action, number, 0, nullptr), "seccomp_rule_add",
         name);
}

void add(const Filter& filter, std::uint32_t action, int number, scmp_arg_cmp condition) {
  expect(::seccomp_rule_add_array(filter.get(), action, number, 1, &condition), "seccomp_rule_add",
         std::to_string(number));
}

// New namespaces are refused, threads and processes are not. The filter can't look into clone3's
// structure, and every C library goes back to clone where that one is missing: clone3 is in no
// list, so it answers ENOSYS.
void add_clone_rules(const Filter& filter) {
  constexpr scmp_datum_t new_namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                          CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                          CLONE_NEWNET;
  add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone),
      scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, new_namespaces, 0});
  // One rule for each flag: together they are the opposite of the rule above.
  for (scmp_datum_t flag = 1; flag <= new_namespaces; flag <<= 1) {
    if ((flag & new_namespaces) == 0) continue;
    add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone),
        scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, flag, flag});
  }
}

// AF_ALG is a wide and little used way into the kernel's ciphers, AF_VSOCK leads past the network
// namespace to the hypervisor: both get the filter's default.
void add_socket_rules(const Filter& filter) {
  static_assert(AF_ALG == 38 && AF_VSOCK == 40);
  const int number = SCMP_SYS(socket);
  add(filter, SCMP_ACT_ALLOW, number, scmp_arg_cmp{0, SCMP_CMP_LT, AF_ALG, 0});
  add(filter, SCMP_ACT_ALLOW, number, scmp_arg_cmp{0, SCMP_CMP_EQ, AF_ALG + 1, 0});
  add(filter, SCMP_ACT_ALLOW, number, scmp_arg_cmp{0, SCMP_CMP_GT, AF_VSOCK, 0});
}

// i386's socketcall hides the family behind a pointer. libseccomp allows it by itself along with
// each call that it carries (seccomp_rule_add(3), pseudo system calls), whatever that rule says of
// the family: a later rule without conditions replaces those.
void refuse_socketcall(const Filter& filter) { add(filter, SCMP_ACT_ERRNO(EPERM), "socketcall"); }

// Other personalities switch off address randomisation or bring back old system calls
// (personality(2)).
void add_personality_rules(const Filter& filter) {
  constexpr scmp_datum_t query = 0xffffffff;
  constexpr scmp_datum_t uname26 = UNAME26;
  for (const scmp_datum_t persona : {scmp_datum_t{PER_LINUX}, scmp_datum_t{PER_LINUX32}, uname26,
                                     uname26 | PER_LINUX32, query}) {
    add(filter, SCMP_ACT_ALLOW, SCMP_SYS(personality), scmp_arg_cmp{0, SCMP_CMP_EQ, persona, 0});
  }
}

Filter make_filter() {
  Filter filter(::seccomp_init(SCMP_ACT_ERRNO(ENOSYS)));
  if (!filter) throw os::Error(ENOMEM, "seccomp_init", "filter");
  expect(::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)),
         "seccomp_attr_set", "other architectures");
  // A binary tree: some nine comparisons for a call in place of hundreds.
  expect(::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2), "seccomp_attr_set",
         "optimize");
#if defined(__x86_64__)
  expect(::seccomp_arch_add(filter.get(), SCMP_ARCH_X86), "seccomp_arch_add", "x86");
#elif defined(__aarch64__)
  expect(::seccomp_arch_add(filter.get(), SCMP_ARCH_ARM), "seccomp_arch_add", "arm");
#endif
  return filter;
}

// For the defence that is off.
std::string allow_everything() {
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  return {reinterpret_cast<const char*>(&allow), sizeof allow};
}

}  // namespace

std::string build_seccomp_filter() {
  if (!os::defence_is_on(os::Defence::system_call_filter)) return allow_everything();
  const Filter filter = make_filter();
  for (const std::string_view name : allowed_calls()) add(filter, SCMP_ACT_ALLOW, name);
  for (const std::string_view name : refused_calls()) add(filter, SCMP_ACT_ERRNO(EPERM), name);
  add_clone_rules(filter);
  add_socket_rules(filter);
  add_personality_rules(filter);
  refuse_socketcall(filter);
  // libseccomp 2.5 exports into a descriptor only (seccomp_export_bpf(3)).
  const os::UniqueFd file(
      os::check(::memfd_create("filter", MFD_CLOEXEC), "memfd_create", "filter"));
  expect(::seccomp_export_bpf(filter.get(), file.get()), "seccomp_export_bpf", "filter");
  os::check(::lseek(file.get(), 0, SEEK_SET), "lseek", "filter");
  return os::read_all(file, max_filter_bytes);
}

}  // namespace daiv::runtime
