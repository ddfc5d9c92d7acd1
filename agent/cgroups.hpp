#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::agent {

// A cgroup of the session's delegated subtree that holds the processes of one command (cgroup-v2).
class Leaf {
public:
  explicit Leaf(os::UniqueFd directory, std::string name);

  [[nodiscard]] const os::UniqueFd& directory() const noexcept { return directory_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  // Kills all processes in it, also those that are being forked meanwhile (cgroup.kill,
  // Linux 5.14).
  void kill();
  // It was killed once: it takes no new processes. Seen on Linux 6.18: what is born into such a
  // cgroup by CLONE_INTO_CGROUP is killed at once, as if it had been forked while the kill was
  // going on.
  [[nodiscard]] bool killed() const noexcept { return killed_; }
  // No living process is in it (cgroup.events, populated); zombies don't count.
  [[nodiscard]] bool empty() const;
  // Processes in it, the first some hundred (cgroup-v2, cgroup.procs).
  [[nodiscard]] std::vector<pid_t> processes() const;
  // How many processes of it the OOM killer has ended since it was made (cgroup-v2, memory.events,
  // oom_kill); 0 where there is no memory controller.
  [[nodiscard]] std::uint64_t oom_kills() const;

private:
  os::UniqueFd directory_;
  os::UniqueFd events_;
  std::string name_;
  bool killed_ = false;
};

// The cgroup of the session's commands, reached by descriptor alone; the agent itself is beside it.
// The workers are in the leaf `work`.
class Cgroups {
public:
  // Where the cgroup is not delegated to the agent there are no leaves: processes are tracked by
  // other means.
  explicit Cgroups(os::UniqueFd commands);

  // An empty leaf for a command; nothing where there are none.
  [[nodiscard]] std::optional<Leaf> take();
  // Gives a leaf back, also while background processes live in it; it is used again or removed when
  // it is empty.
  void give_back(Leaf leaf);
  // The leaf that workers join; null where there are none.
  [[nodiscard]] const Leaf* workers() const noexcept { return workers_ ? &*workers_ : nullptr; }

  // Moves the calling process. For forked children; throws os::Error.
  static void join(const Leaf& leaf);

private:
  Leaf make(const std::string& name);
  void sweep();

  os::UniqueFd commands_;
  std::optional<Leaf> workers_;
  std::vector<Leaf> used_;
  std::uint64_t last_number_ = 0;
};

}  // namespace daiv::agent
