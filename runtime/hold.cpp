#include "runtime/hold.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <sstream>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t max_cgroup_file_bytes = 64U << 10;

void make_directory(const os::UniqueFd& parent, const char* name) {
  // There already after a holder that was killed.
  if (::mkdirat(parent.get(), name, 0755) != 0 && errno != EEXIST)
    os::throw_errno("mkdir cgroup", name);
  // Whatever the unit's umask: root of a sandbox mounts its cgroup, for which the kernel walks down
  // to it with that root's rights (kernfs_node_dentry).
  os::check(::fchmodat(parent.get(), name, 0755, 0), "chmod cgroup", name);
}

void pass_controllers_on(const os::UniqueFd& unit) {
  std::istringstream offered(
      os::read_all(os::open_at(unit, "cgroup.controllers", O_RDONLY), max_cgroup_file_bytes));
  for (std::string controller; offered >> controller;) {
    try {
      os::write_value(unit, "cgroup.subtree_control", "+" + controller);
    } catch (const os::Error& error) {
      fmt::print(stderr, "level=warning event=controller_missing controller={} error=\"{}\"\n",
                 controller, error.what());
    }
  }
}

}  // namespace

std::optional<std::string> find_cgroup2_path(std::string_view text) {
  constexpr std::string_view mark = "0::";  // hierarchy 0 is the second version
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(mark)) return line.substr(mark.size());
  return std::nullopt;
}

void hold_cgroup(const std::string& unit) {
  const os::UniqueFd directory = os::open_file(unit, O_RDONLY | O_DIRECTORY);
  make_directory(directory, "holder");
  os::write_value(directory, "holder/cgroup.procs", "0");
  pass_controllers_on(directory);
  make_directory(directory, "sessions");
}

}  // namespace daiv::runtime
