#include "agent/cgroups.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr std::size_t max_spare_leaves = 2;

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

Cgroups::Cgroups(os::UniqueFd session) : session_(std::move(session)) {
  try {
    // "no internal processes": with controllers on, only leaves may hold processes (cgroup-v2).
    join(make("agent"));
    workers_.emplace(make("work"));
  } catch (const os::Error&) {
    workers_.reset();
  }
}

Leaf Cgroups::make(const std::string& name) {
  if (::mkdirat(session_.get(), name.c_str(), 0755) != 0 && errno != EEXIST)
    os::throw_errno("mkdirat", name);
  return Leaf(os::open_at(session_, name, O_RDONLY | O_DIRECTORY), name);
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
    return ::unlinkat(session_.get(), leaf.name().c_str(), AT_REMOVEDIR) == 0;
  });
}

void Cgroups::join(const Leaf& leaf) { os::write_value(leaf.directory(), "cgroup.procs", "0"); }

}  // namespace daiv::agent
