#pragma once

#include <string>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::agent {

// Moves a staged tree into the folder that it is for, by renames, so that each name changes at
// once. Directories that are in both are merged, everything else of the same name is replaced, the
// rest of the folder stays. Undoes what it has done when it is destroyed before keep(). Both must
// lie on one file system and belong to the calling process's user.
class SeedMerge {
public:
  SeedMerge() = default;
  SeedMerge(const SeedMerge&) = delete;
  SeedMerge& operator=(const SeedMerge&) = delete;
  ~SeedMerge();

  // Throws os::Error. May be called for several pairs of trees, which are then undone together.
  // What was replaced is left in `staged`.
  void move(const os::UniqueFd& staged, const os::UniqueFd& target);
  void keep() noexcept { steps_.clear(); }

private:
  struct Step {
    const os::UniqueFd* staged;
    const os::UniqueFd* target;
    std::string path;
    unsigned flags;
  };

  void move_members(const os::UniqueFd& staged, const os::UniqueFd& target,
                    const std::string& prefix);
  void move_member(const os::UniqueFd& staged, const os::UniqueFd& target, const std::string& path);

  std::vector<Step> steps_;
};

// Removes `path` below `root` with all that is in it; what is not there is fine, what can't be
// removed stays.
void remove_tree(const os::UniqueFd& root, const std::string& path) noexcept;

}  // namespace daiv::agent
