#pragma once

#include <sys/stat.h>

#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::agent {

// A tree that an archive is extracted into. Nothing is written through a symlink, and nothing takes
// a directory's place. Paths are tidy (seed_policy.hpp). What can't be made is a value; what the
// disk refuses (ENOSPC) throws os::Error.
class SeedTree {
public:
  // `root` is a directory of the process's own; the umask must be 0.
  explicit SeedTree(os::UniqueFd root) : root_(std::move(root)) {}

  // A new file for a path; one that an earlier member made is replaced. Empty: can't be made.
  [[nodiscard]] std::optional<os::UniqueFd> create_file(const std::string& path, mode_t mode);
  // False: can't be made. An existing directory gets the mode.
  [[nodiscard]] bool make_directory(const std::string& path, mode_t mode,
                                    std::optional<timespec> modified);
  [[nodiscard]] bool make_link(const std::string& path, const std::string& target,
                               std::optional<timespec> modified);

  // Sets the directories' times, which making their members has changed.
  void finish();

private:
  // The directory at `path`, made with its parents where it is missing; null where it can't be.
  const os::UniqueFd* open_directory(const std::string& path);
  std::optional<os::UniqueFd> open_or_make(const std::string& path);

  os::UniqueFd root_;
  // Members of one directory mostly follow each other.
  std::string last_path_;
  os::UniqueFd last_directory_;
  std::vector<std::pair<std::string, timespec>> directory_times_;
};

}  // namespace daiv::agent
