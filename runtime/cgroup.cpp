#include "runtime/cgroup.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/process.hpp"
#include "runtime/directory.hpp"
#include "runtime/hold.hpp"
#include "runtime/processors.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t max_cgroup_file_bytes = 64U << 10;
constexpr std::size_t max_mountinfo_bytes = 16U << 20;
constexpr std::uint64_t cpu_period_us = 100'000;
constexpr const char* effective_processors = "cpuset.cpus.effective";
// Without the last two no session is refused: io only shares fairly, and what cpuset binds is bound
// by affinity, too, which a program can widen.
constexpr std::array wanted_controllers{"cpu", "memory", "pids", "io", "cpuset"};
// Delegating is giving away these and the directory (cgroup-v2, Model of Delegation).
constexpr std::array delegated_files{"cgroup.procs", "cgroup.threads", "cgroup.subtree_control"};

std::string read_at(const os::UniqueFd& directory, const std::string& name) {
  return os::read_all(os::open_at(directory, name, O_RDONLY), max_cgroup_file_bytes);
}

Controllers read_controllers(const os::UniqueFd& directory, const std::string& file) {
  std::istringstream words(read_at(directory, file));
  Controllers controllers;
  for (std::string word; words >> word;) controllers.insert(word);
  return controllers;
}

// A controller that can't be turned on is as good as one that is missing: what asks for it is
// refused later.
void enable_controllers(const os::UniqueFd& directory) {
  const Controllers offered = read_controllers(directory, "cgroup.controllers");
  for (const char* controller : wanted_controllers) {
    if (!offered.contains(controller)) continue;
    try {
      os::write_value(directory, "cgroup.subtree_control", fmt::format("+{}", controller));
    } catch (const os::Error&) {
    }
  }
}

std::string missing(std::string_view limit, std::string_view controller) {
  return fmt::format(
      "a {} limit needs the {} controller of cgroup v2, which is not there: mount cgroup v2 alone "
      "(systemd.unified_cgroup_hierarchy=1) and delegate the controller to the service "
      "(Delegate=yes)",
      limit, controller);
}

void delegate(const os::UniqueFd& directory, std::uint32_t owner) {
  os::check(::fchownat(directory.get(), ".", owner, owner, 0), "fchownat", "cgroup");
  for (const char* file : delegated_files)
    os::check(::fchownat(directory.get(), file, owner, owner, AT_SYMLINK_NOFOLLOW), "fchownat",
              file);
}

bool reads_populated(const os::UniqueFd& events) {
  std::array<char, 256> text{};
  const ssize_t size =
      os::check(::pread(events.get(), text.data(), text.size(), 0), "pread", "cgroup.events");
  return std::string_view(text.data(), static_cast<std::size_t>(size)).find("populated 1") !=
         std::string_view::npos;
}

void wait_until_empty(const os::UniqueFd& directory, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const os::UniqueFd events = os::open_at(directory, "cgroup.events", O_RDONLY);
  while (reads_populated(events)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) throw os::Error(ETIMEDOUT, "wait", "processes of the cgroup");
    os::wait_for(events, POLLPRI, left);
  }
}

void remove_cgroup_tree(const os::UniqueFd& parent, const std::string& name) {
  {
    const os::UniqueFd directory = os::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    for (const std::string& child : list_directories(directory))
      remove_cgroup_tree(directory, child);
  }
  os::check(::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR), "rmdir cgroup", name);
}

os::UniqueFd find_cgroup(const os::UniqueFd& root, const std::string& name) {
  os::UniqueFd fd(
      ::openat(root.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && errno != ENOENT) os::throw_errno("openat", name);
  return fd;
}

// Files that a kernel with the controller may lack: without swap there is nothing to forbid
// (memory.swap.max comes with CONFIG_SWAP), and weights of I/O need a device that shares by them
// (io.weight comes with CONFIG_BLK_CGROUP_IOCOST or the bfq scheduler). Of cpuset.cpus the affinity
// says the same.
bool may_be_absent(const CgroupSetting& setting) {
  return setting.file == "memory.swap.max" || setting.file == "io.weight" ||
         setting.file == "cpuset.cpus";
}

void apply_settings(const os::UniqueFd& directory, const std::vector<CgroupSetting>& settings,
                    CgroupLevel level) {
  for (const CgroupSetting& setting : settings) {
    if (setting.level != level) continue;
    if (may_be_absent(setting) && ::faccessat(directory.get(), setting.file.c_str(), F_OK, 0) != 0)
      continue;
    os::write_value(directory, setting.file, setting.value);
  }
}

os::UniqueFd make_cgroup(const os::UniqueFd& parent, const std::string& name) {
  os::check(::mkdirat(parent.get(), name.c_str(), 0755), "mkdir cgroup", name);
  return os::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

}  // namespace

std::uint64_t max_processes(const Limits& limits) {
  return limits.pids != 0 ? limits.pids : default_max_processes;
}

std::expected<std::vector<CgroupSetting>, std::string> plan_cgroup(
    const Limits& limits, std::span<const unsigned> processors, const Controllers& controllers) {
  std::vector<CgroupSetting> settings;
  if (limits.memory_bytes != 0) {
    if (!controllers.contains("memory")) return std::unexpected(missing("memory", "memory"));
    settings.push_back({"memory.max", fmt::format("{}", limits.memory_bytes + agent_memory_bytes)});
    settings.push_back({"memory.swap.max", "0"});
    settings.push_back(
        {"memory.max", fmt::format("{}", limits.memory_bytes), CgroupLevel::commands});
  }
  if (limits.cpu_millis != 0) {
    if (!controllers.contains("cpu")) return std::unexpected(missing("processor", "cpu"));
    settings.push_back(
        {"cpu.max", fmt::format("{} {}", limits.cpu_millis * cpu_period_us / 1000, cpu_period_us)});
  }
  if (!processors.empty() && controllers.contains("cpuset"))
    settings.push_back({"cpuset.cpus", format_processor_list(processors)});
  if (controllers.contains("pids"))
    settings.push_back({"pids.max", fmt::format("{}", max_processes(limits))});
  if (controllers.contains("io")) settings.push_back({"io.weight", "default 100"});
  return settings;
}

std::optional<std::string> find_cgroup2_mount(std::string_view mountinfo) {
  // Fields 4 and 5 are the root and the mount point; after " - " comes the type
  // (proc_pid_mountinfo(5)).
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string id, parent, device, root, point;
    fields >> id >> parent >> device >> root >> point;
    if (root == "/") return point;
  }
  return std::nullopt;
}

CgroupRoot CgroupRoot::open(std::string path) {
  if (path.empty()) {
    const auto mount =
        find_cgroup2_mount(os::read_file("/proc/self/mountinfo", max_mountinfo_bytes));
    if (!mount) throw os::Error(ENOENT, "find", "a cgroup2 mount");
    path = fmt::format("{}{}{}", *mount, holder_unit, holder_sessions);
    if (::access(path.c_str(), F_OK) != 0) path = *mount + "/daiv-sandbox";
  }
  CgroupRoot root;
  if (::mkdir(path.c_str(), 0755) == 0) {
    // Freshly made, so no manager has delegated it: its parent must pass the controllers on.
    enable_controllers(os::open_file(path + "/..", O_RDONLY | O_DIRECTORY));
  } else if (errno != EEXIST) {
    os::throw_errno("mkdir", path);
  }
  root.path_ = std::move(path);
  root.directory_ = os::open_file(root.path_, O_RDONLY | O_DIRECTORY);
  enable_controllers(root.directory_);
  root.controllers_ = read_controllers(root.directory_, "cgroup.subtree_control");
  return root;
}

std::vector<unsigned> CgroupRoot::processors() const {
  std::vector<unsigned> own = read_processors();
  if (::faccessat(directory_.get(), effective_processors, F_OK, 0) != 0) return own;
  const auto of_directory = parse_processor_list(read_at(directory_, effective_processors));
  if (!of_directory) throw os::Error(EBADMSG, "parse", effective_processors);
  std::erase_if(
      own, [&](unsigned number) { return !std::ranges::binary_search(*of_directory, number); });
  // A process that is born there gets what the directory has where it shares nothing with that.
  return own.empty() ? *of_directory : own;
}

std::vector<std::string> CgroupRoot::list() const { return list_directories(directory_); }

SessionCgroup create_session_cgroup(const CgroupRoot& root, const std::string& session,
                                    const std::vector<CgroupSetting>& settings,
                                    std::uint32_t owner) {
  SessionCgroup cgroup;
  cgroup.directory = make_cgroup(root.directory(), session);
  apply_settings(cgroup.directory, settings, CgroupLevel::session);
  cgroup.agent = make_cgroup(cgroup.directory, "agent");
  cgroup.commands = make_cgroup(cgroup.directory, "commands");
  for (const auto* directory : {&cgroup.directory, &cgroup.agent, &cgroup.commands})
    delegate(*directory, owner);
  return cgroup;
}

void enable_leaf_controllers(const SessionCgroup& cgroup, const Controllers& controllers,
                             const std::vector<CgroupSetting>& settings) {
  Controllers passed_on = controllers;
  passed_on.erase("cpuset");
  if (passed_on.empty()) return;
  const std::string all = fmt::format("+{}", fmt::join(passed_on, " +"));
  os::write_value(cgroup.directory, "cgroup.subtree_control", all);
  apply_settings(cgroup.commands, settings, CgroupLevel::commands);
  os::write_value(cgroup.commands, "cgroup.subtree_control", all);
}

void remove_session_cgroup(const CgroupRoot& root, const std::string& session,
                           std::chrono::milliseconds limit) {
  const os::UniqueFd directory = find_cgroup(root.directory(), session);
  if (!directory) return;
  os::write_value(directory, "cgroup.kill", "1");
  wait_until_empty(directory, limit);
  remove_cgroup_tree(root.directory(), session);
}

bool is_populated(const CgroupRoot& root, const std::string& session) {
  const os::UniqueFd directory = find_cgroup(root.directory(), session);
  return directory && reads_populated(os::open_at(directory, "cgroup.events", O_RDONLY));
}

}  // namespace daiv::runtime
