#include "runtime/host_probe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <functional>
#include <sstream>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/mount.hpp"
#include "os/namespace.hpp"
#include "os/process.hpp"
#include "runtime/cgroup.hpp"
#include "runtime/directory.hpp"
#include "runtime/disk_limits.hpp"
#include "runtime/seccomp_filter.hpp"
#include "runtime/trash.hpp"
#include "runtime/upstream.hpp"

namespace daiv::runtime {
namespace {

constexpr std::string_view good = "ok";
constexpr std::size_t max_subid_bytes = 1U << 20;
constexpr unsigned wanted_major = 6;
constexpr unsigned wanted_minor = 1;

std::string check_kernel() {
  utsname name{};
  os::check(::uname(&name), "uname", "kernel");
  if (is_release_at_least(name.release, wanted_major, wanted_minor)) return std::string(good);
  return fmt::format("kernel {} is older than {}.{}: install a newer one", name.release,
                     wanted_major, wanted_minor);
}

std::string check_cgroups(const BrokerOptions& options) {
  const CgroupRoot root = CgroupRoot::open(options.cgroup_root);
  std::vector<std::string_view> absent;
  for (const std::string_view controller : {"memory", "cpu", "pids"})
    if (!root.controllers().contains(controller)) absent.push_back(controller);
  if (absent.empty()) return std::string(good);
  return fmt::format(
      "cgroup v2 without the controllers {}: sessions that ask for such limits are refused; boot "
      "with "
      "systemd.unified_cgroup_hierarchy=1 and set Delegate=yes for the service",
      fmt::join(absent, ", "));
}

std::string check_user_namespaces(const BrokerOptions& options) {
  const std::array map{os::IdExtent{0, options.ranges.storage_base(), range_size}};
  os::make_user_namespace(map);
  return std::string(good);
}

std::string check_seccomp() {
  std::uint32_t action = SECCOMP_RET_ERRNO;
  os::check(::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action), "seccomp",
            "SECCOMP_RET_ERRNO");
  build_seccomp_filter();
  return std::string(good);
}

std::string check_overlap(const BrokerOptions& options) {
  for (const char* path : {"/etc/subuid", "/etc/subgid"}) {
    if (::access(path, F_OK) != 0) continue;
    const std::string line = find_overlap(os::read_file(path, max_subid_bytes), options.ranges);
    if (!line.empty())
      return fmt::format("{} gives ids of ours away in \"{}\": move one of the two ranges", path,
                         line);
  }
  return std::string(good);
}

std::string check_quota(const BrokerOptions& options) {
  return options.session_disk_bytes == 0 ? std::string(good) : check_disk_bound(options.state_dir);
}

// Mounts an overlay over an idmapped layer just as a session has it; in a child, whose namespaces
// go with it.
void try_overlay(const os::UniqueFd& scratch, const UidRanges& ranges) {
  const std::uint32_t session_base = ranges.start + range_size;
  const std::array layer_map{os::IdExtent{ranges.storage_base(), session_base, range_size}};
  const std::array session_map{os::IdExtent{0, session_base, range_size}};
  const Owner session_owner{session_base, session_base};
  const os::UniqueFd layers =
      open_own_directory(scratch, "layers", 0700, {ranges.storage_base(), ranges.storage_base()});
  open_own_directory(layers, "lower1", 0755, {ranges.storage_base(), ranges.storage_base()});
  const os::UniqueFd session = open_own_directory(scratch, "session", 0711, {});
  for (const char* name : {"upper", "work"}) open_own_directory(session, name, 0755, session_owner);
  for (const char* name : {"lower", "root"}) open_own_directory(session, name, 0700, {});
  const os::UniqueFd layer_mount = os::clone_mount(layers, "");
  os::set_id_map(layer_mount, os::make_user_namespace(layer_map));
  const os::UniqueFd session_mount = os::clone_mount(session, "");
  os::Pipe go = os::make_pipe();
  os::Pipe report = os::make_pipe();
  os::Child child = os::clone_process(CLONE_NEWUSER | CLONE_NEWNS);
  if (!child) {
    std::string text;  // errno and words
    try {
      std::array<std::byte, 1> signal{};
      os::read_full(go.read_end, signal);
      os::check(::setresgid(0, 0, 0), "setresgid", "0");
      os::check(::setresuid(0, 0, 0), "setresuid", "0");
      os::make_mounts_private();
      os::attach_mount(session_mount, os::open_file("/proc", O_PATH));
      os::attach_mount(layer_mount, os::open_at(session_mount, "lower", O_PATH));
      os::check(::fchdir(layer_mount.get()), "fchdir", "layers");
      os::mount_filesystem("overlay", "../root", MS_NODEV,
                           "userxattr,lowerdir=lower1,upperdir=../upper,workdir=../work");
      os::open_file("../root/written", O_WRONLY | O_CREAT, 0600);
    } catch (const os::Error& error) {
      text = fmt::format("{}{}", error.error_number(), error.what());
    } catch (const std::exception& error) {
      text = fmt::format("{}{}", ENOTSUP, error.what());
    }
    static_cast<void>(!::write(report.write_end.get(), text.data(), text.size()));
    ::_exit(0);
  }
  report.write_end.reset();
  os::write_id_maps(child.pid(), session_map, session_map);
  os::write_full(go.write_end, "g");
  const std::string text = os::read_all(report.read_end, 4096);
  child.wait();
  if (text.empty()) return;
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [words, error] = std::from_chars(text.data(), end, number);
  throw os::Error(error == std::errc{} ? number : ENOTSUP, "overlay of", std::string(words, end));
}

std::string explain_overlay_fault(const os::Error& error, const std::string& state_dir) {
  if (error.error_number() == ENOSPC || error.error_number() == EDQUOT)
    return fmt::format("not tried, since no space is left at {}: {}", state_dir, error.what());
  return fmt::format(
      "{}: overlayfs over idmapped mounts needs Linux 5.19 and a state directory on ext4, xfs or "
      "btrfs",
      error.what());
}

std::string check_overlay(const BrokerOptions& options) {
  const os::UniqueFd trash = open_or_make(options.state_dir + "/trash", 0700);
  const std::string name = fmt::format("probe-{}", ::getpid());
  std::string fault(good);
  try {
    try_overlay(open_own_directory(trash, name, 0711, {}), options.ranges);
  } catch (const os::Error& error) {
    fault = explain_overlay_fault(error, options.state_dir);
  }
  remove_tree(trash, name);
  return fault;
}

}  // namespace

bool is_release_at_least(std::string_view release, unsigned major, unsigned minor) {
  unsigned found_major = 0;
  unsigned found_minor = 0;
  const char* end = release.data() + release.size();
  const auto first = std::from_chars(release.data(), end, found_major);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') return false;
  if (std::from_chars(first.ptr + 1, end, found_minor).ec != std::errc{}) return false;
  return std::pair(found_major, found_minor) >= std::pair(major, minor);
}

std::string find_overlap(std::string_view subids, const UidRanges& ranges) {
  const std::uint64_t begin = ranges.start;
  const std::uint64_t end = begin + std::uint64_t{ranges.count} * range_size;
  std::istringstream lines{std::string(subids)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::uint64_t start = 0;
    std::uint64_t count = 0;
    std::from_chars(line.data() + first + 1, line.data() + second, start);
    std::from_chars(line.data() + second + 1, line.data() + line.size(), count);
    if (start < end && begin < start + count) return line;
  }
  return {};
}

HostReport probe_host(const BrokerOptions& options) {
  using Check = std::function<std::string()>;
  std::vector<std::pair<std::string, Check>> checks{
      {"kernel", check_kernel},
      {"cgroups", [&] { return check_cgroups(options); }},
      {"user namespaces", [&] { return check_user_namespaces(options); }},
      {"seccomp", check_seccomp},
      {"overlay", [&] { return check_overlay(options); }},
      {"uid ranges", [&] { return check_overlap(options); }},
      {"disk quota", [&] { return check_quota(options); }},
  };
  if (!options.egress_network.empty())
    checks.emplace_back("egress namespace", [&] {
      open_upstream(options, AF_INET, SOCK_STREAM, 1);
      return std::string(good);
    });
  HostReport report;
  for (const auto& [name, check] : checks) {
    report.checks.push_back(name);
    try {
      report.checks.push_back(check());
    } catch (const os::Error& error) {
      report.checks.emplace_back(error.what());
    }
  }
  return report;
}

}  // namespace daiv::runtime
