#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/fs_directory.hpp"
#include "agent/fs_wildcard.hpp"
#include "os/unique_fd.hpp"

// Walks a directory tree with one thread per core. Links are not followed, also not where a
// directory is swapped for one meanwhile. Directories that can't be read are passed over, and so
// are those whose path below the base is longer than the kernel takes (PATH_MAX, 4,096 bytes).
namespace daiv::agent {

// A directory that was read. `state` is the visitor's own.
struct WalkedDirectory {
  std::string path;  // below the base, with a slash at its end; empty for the base
  std::vector<DirectoryEntry> entries;
  std::vector<std::uint32_t> state;
  bool too_deep = false;  // passed over for the length of its path
};

// Asked, from several threads at once, for each entry that is a directory; returns whether it is
// walked too, and if so sets what will be its `state`.
using Descend = std::function<bool(const WalkedDirectory& parent, const DirectoryEntry& entry,
                                   std::vector<std::uint32_t>& state)>;

// All directories that were walked, in no order. The base must have been opened for reading;
// `state` is its state.
std::vector<std::unique_ptr<WalkedDirectory>> walk(const os::UniqueFd& base,
                                                   std::vector<std::uint32_t> state,
                                                   const Descend& descend);

// Runs `work` on `count` threads, the calling one among them, and waits for all. What one throws is
// thrown here.
void run_on_threads(std::size_t count, const std::function<void()>& work);

// The number of threads for work on many files: one for each core this process may use, at most 16.
std::size_t worker_count();

// The patterns for names of directories that are left out.
std::vector<Wildcard> prune_patterns(const std::vector<std::string>& prune,
                                     const std::vector<std::string>& exclude);

}  // namespace daiv::agent
