#include "images/unpack/confine.hpp"

#include <fcntl.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "images/unpack/seccomp_filter.hpp"
#include "os/attack_switches.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/mount.hpp"
#include "os/process.hpp"

// Its shadow is larger than any limit. gcc defines a macro, clang 19 answers a question.
#if defined(__SANITIZE_ADDRESS__)
#define DAIV_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DAIV_ADDRESS_SANITIZER
#endif
#endif

namespace daiv::images::unpack {

namespace {

constexpr rlim_t max_descriptors = 4096;  // a tree that is removed has one open per level
constexpr std::array kept_capabilities = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID,
                                          CAP_SETFCAP};

void require(bool holds, const char* what) {
  if (!holds) throw os::Error(EPERM, "confine", what);
}

// In the first user namespace the capabilities that are kept would be the host's.
void require_own_user_namespace() {
  const std::string map = os::read_file("/proc/self/uid_map", 4096);
  const std::size_t first = map.find_first_not_of(' ');
  const std::size_t second = map.find_first_not_of(' ', map.find(' ', first));
  require(first != std::string::npos && second != std::string::npos, "user namespace");
  require(map.compare(second, 2, "0 ") != 0, "user namespace that maps no host root");
}

void drop_descriptors(const os::UniqueFd& last) {
  const os::UniqueFd null = os::open_file("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    os::check(::dup2(null.get(), fd), "dup2", "/dev/null");
  os::close_from(last.get() + 1);
}

void confine_file_system(const os::UniqueFd& layer) {
  os::make_mounts_private();
  // Behind the process's root there is nothing: even out of the chroot, this is what one would
  // find.
  const std::array<os::MountOption, 2> options = {{{"size", "4096"}, {"mode", "000"}}};
  const os::UniqueFd empty =
      os::make_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  os::attach_mount(empty, os::open_file("/proc", O_PATH | O_DIRECTORY));
  os::pivot_root_to(empty);
  os::set_mount_attributes(empty, MOUNT_ATTR_RDONLY);
  // The layer's mount may belong to the broker's mount namespace, where it cannot become a root by
  // pivot_root(2): chroot(2) takes it, and the way out is gone with CAP_SYS_CHROOT and the last
  // directory outside.
  os::check(::fchdir(layer.get()), "fchdir", "layer");
  os::check(::chroot("."), "chroot", "layer");
  os::check(::chdir("/"), "chdir", "layer");
}

void require_layer_as_root(const os::UniqueFd& layer) {
  struct stat root{};
  struct stat above{};
  struct stat expected{};
  os::check(::stat("/", &root), "stat", "/");
  os::check(::stat("/..", &above), "stat", "/..");
  os::check(::fstat(layer.get(), &expected), "fstat", "layer");
  require(root.st_dev == expected.st_dev && root.st_ino == expected.st_ino,
          "the layer as root directory");
  require(above.st_dev == root.st_dev && above.st_ino == root.st_ino, "nothing above the layer");
  require(::access("/proc", F_OK) != 0 && errno == ENOENT, "an empty layer");
}

// It lies outside the layer: ".." must lead nowhere else, and nothing may be written through it.
void require_closed_parents(const os::UniqueFd& parents) {
  struct stat root{};
  struct stat above{};
  struct statvfs mount{};
  os::check(::fstat(parents.get(), &root), "fstat", "parents");
  os::check(::fstatat(parents.get(), "..", &above, AT_SYMLINK_NOFOLLOW), "fstatat", "parents");
  require(root.st_dev == above.st_dev && root.st_ino == above.st_ino, "nothing above the parents");
  os::check(::fstatvfs(parents.get(), &mount), "fstatvfs", "parents");
  require((mount.f_flag & ST_RDONLY) != 0 && (mount.f_flag & ST_NODEV) != 0,
          "parents that are read only and without devices");
}

void set_limit(__rlimit_resource resource, rlim_t wanted, const char* name) {
  rlimit limit{};
  os::check(::getrlimit(resource, &limit), "getrlimit", name);
  limit.rlim_max = std::min(limit.rlim_max, wanted);
  limit.rlim_cur = limit.rlim_max;
  os::check(::setrlimit(resource, &limit), "setrlimit", name);
  os::check(::getrlimit(resource, &limit), "getrlimit", name);
  require(limit.rlim_max <= wanted && limit.rlim_cur <= wanted, name);
}

void set_limits() {
  set_limit(RLIMIT_CORE, 0, "RLIMIT_CORE");
  set_limit(RLIMIT_NOFILE, max_descriptors, "RLIMIT_NOFILE");
#ifndef DAIV_ADDRESS_SANITIZER
  constexpr rlim_t max_memory = rlim_t{2} << 30U;
  set_limit(RLIMIT_AS, max_memory, "RLIMIT_AS");
#endif
}

struct FreeCapabilities {
  void operator()(cap_t capabilities) const noexcept { ::cap_free(capabilities); }
};
using Capabilities = std::unique_ptr<std::remove_pointer_t<cap_t>, FreeCapabilities>;

void drop_capabilities() {
  const auto is_kept = [](cap_value_t capability) {
    return std::ranges::find(kept_capabilities, capability) != kept_capabilities.end();
  };
  for (cap_value_t capability = 0; ::cap_get_bound(capability) >= 0; ++capability) {
    if (!is_kept(capability))
      os::check(::cap_drop_bound(capability), "cap_drop_bound", std::to_string(capability));
  }
  os::check(::cap_reset_ambient(), "cap_reset_ambient", "capabilities");
  const Capabilities wanted(::cap_init());
  if (!wanted) os::throw_errno("cap_init", "capabilities");
  for (const cap_flag_t set : {CAP_PERMITTED, CAP_EFFECTIVE}) {
    os::check(::cap_set_flag(wanted.get(), set, static_cast<int>(kept_capabilities.size()),
                             kept_capabilities.data(), CAP_SET),
              "cap_set_flag", "capabilities");
  }
  os::check(::cap_set_proc(wanted.get()), "cap_set_proc", "capabilities");

  const Capabilities actual(::cap_get_proc());
  require(actual && ::cap_compare(actual.get(), wanted.get()) == 0, "capabilities");
  for (cap_value_t capability = 0; ::cap_get_bound(capability) >= 0; ++capability) {
    require(is_kept(capability) || ::cap_get_bound(capability) == 0, "the bounding set");
  }
}

void forbid_new_privileges() {
  os::check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl", "PR_SET_NO_NEW_PRIVS");
  require(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs");
}

void filter_system_calls() {
  load_seccomp_filter();
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(socket < 0 && errno == EPERM, "the seccomp filter");
}

}  // namespace

void confine(const os::UniqueFd& input, const os::UniqueFd& result, const os::UniqueFd& layer,
             const os::UniqueFd& parents) {
  require(input.get() < layer.get() && result.get() < layer.get(), "descriptors in order");
  require(!parents || layer.get() < parents.get(), "descriptors in order");
  require_own_user_namespace();
  drop_descriptors(parents ? parents : layer);
  if (os::defence_is_on(os::Defence::unpacker_root)) {
    confine_file_system(layer);
    require_layer_as_root(layer);
  }
  if (parents) require_closed_parents(parents);
  set_limits();
  drop_capabilities();
  forbid_new_privileges();
  filter_system_calls();
}

}  // namespace daiv::images::unpack
