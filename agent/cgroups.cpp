#include "agent/cgroups.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr std::size_t max_spare_leaves = 2;

// Limits of the commands as a whole that each leaf repeats, for programs that look at their own
// cgroup alone.
constexpr std::string_view memory_max = "memory.max";

bool has(const os::UniqueFd& directory, std::string_view file) {
  return ::faccessat(directory.get(), std::string(file).c_str(), F_OK, 0) == 0;
}

// A command that needs more memory than there is ends as a whole: half of it would only hang
// (cgroup-v2, memory.oom.group).
void set_memory_rules(const os::UniqueFd& commands, const os::UniqueFd& leaf) {
  if (!has(leaf, memory_max)) return;
  os::write_value(leaf, "memory.oom.group", "1");
  const std::string limit =
      os::read_all(os::open_at(commands, std::string(memory_max), O_RDONLY), 64);
  os::write_value(leaf, std::string(memory_max), limit);
}

// The value of `key` in a flat keyed file such as memory.events (cgroup-v2, Format).
std::uint64_t find_count(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    std::uint64_t count = 0;
    std::from_chars(line.data() + key.size() + 1, line.data() + line.size(), count);
    return count;
  }
  return 0;
}

}  // namespace

Leaf::Leaf(os::UniqueFd directory, std::string name)
    : directory_(std::move(directory)),
      events_(os::open_at(directory_, "cgroup.events", O_RDONLY)),
      name_(std::move(name)) {}

void Leaf::kill() {
  os::write_value(directory_, "cgroup.kill", "1");
  killed_ = true;
}

bool Leaf::empty() const {
  std::array<char, 256> text{};
  const auto count = os::check(
      os::retry_eintr([&] { return ::pread(events_.get(), text.data(), text.size(), 0); }), "pread",
      "cgroup.events");
  return std::string_view(text.data(), static_cast<std::size_t>(count)).find("populated 0") !=
         std::string_view::npos;
}

std::vector<pid_t> Leaf::processes() const {
  const auto list = os::open_at(directory_, "cgroup.procs", O_RDONLY);
  std::array<char, 4096> text{};
  const auto count =
      os::check(os::retry_eintr([&] { return ::read(list.get(), text.data(), text.size()); }),
                "read", "cgroup.procs");
  std::vector<pid_t> processes;
  for (const char *at = text.data(), *const end = at + count; at < end; ++at) {
    pid_t pid = 0;
    at = std::from_chars(at, end, pid).ptr;
    if (pid > 0) processes.push_back(pid);
  }
  return processes;
}

std::uint64_t Leaf::oom_kills() const {
  if (!has(directory_, "memory.events")) return 0;
  return find_count(os::read_all(os::open_at(directory_, "memory.events", O_RDONLY), 4096),
                    "oom_kill");
}

Cgroups::Cgroups(os::UniqueFd commands) : commands_(std::move(commands)) {
  try {
    workers_.emplace(make("work"));
  } catch (const os::Error&) {
    workers_.reset();
  }
}

Leaf Cgroups::make(const std::string& name) {
  if (::mkdirat(commands_.get(), name.c_str(), 0755) != 0 && errno != EEXIST)
    os::throw_errno("mkdirat", name);
  os::UniqueFd directory = os::open_at(commands_, name, O_RDONLY | O_DIRECTORY);
  set_memory_rules(commands_, directory);
  return Leaf(std::move(directory), name);
}

std::optional<Leaf> Cgroups::take() {
  if (!workers_) return std::nullopt;
  for (auto leaf = used_.begin(); leaf != used_.end(); ++leaf) {
    if (leaf->killed() || !leaf->empty()) continue;
    std::optional<Leaf> taken(std::move(*leaf));
    used_.erase(leaf);
    return taken;
  }
  try {
    return make("command-" + std::to_string(++last_number_));
  } catch (const os::Error&) {
    return std::nullopt;  // cgroup.max.descendants or memory: the command is tracked by other means
  }
}

void Cgroups::give_back(Leaf leaf) {
  used_.push_back(std::move(leaf));
  if (used_.size() > max_spare_leaves || used_.back().killed()) sweep();
}

void Cgroups::sweep() {
  std::size_t spare = 0;
  std::erase_if(used_, [&](const Leaf& leaf) {
    if (!leaf.empty() || (!leaf.killed() && ++spare <= max_spare_leaves)) return false;
    return ::unlinkat(commands_.get(), leaf.name().c_str(), AT_REMOVEDIR) == 0;
  });
}

void Cgroups::join(const Leaf& leaf) { os::write_value(leaf.directory(), "cgroup.procs", "0"); }

}  // namespace daiv::agent
