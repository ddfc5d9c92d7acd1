#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/unique_fd.hpp"

// Directories whose content an outsider chose: every step is relative to a descriptor and follows
// no symlink. Everything throws os::Error.
namespace daiv::runtime {

struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// Names of all entries, or of the directories alone, without "." and "..". `directory` must be
// readable, not O_PATH.
std::vector<std::string> list_entries(const os::UniqueFd& directory);
std::vector<std::string> list_directories(const os::UniqueFd& directory);

// Deletes `name` in `parent` whatever it is, directories with all they hold. Nothing to do where it
// does not exist. Depth is bounded by memory, not by the stack or by descriptors.
void remove_tree(const os::UniqueFd& parent, const std::string& name);

// Opens the directory `name` (O_PATH), made with `mode` and `owner` where it is missing. Anything
// else of that name, a symlink too, is deleted first: the image does not decide where ours goes.
os::UniqueFd open_own_directory(const os::UniqueFd& parent, const std::string& name, mode_t mode,
                                Owner owner);

// Opens the directory that `path` leads to inside `root` (O_PATH), over symlinks that end in a
// directory inside it; where there is none, as open_own_directory.
os::UniqueFd open_image_directory(const os::UniqueFd& root, const std::string& path, mode_t mode,
                                  Owner owner);

// Makes the regular file `name` with this content and mode 0644, in place of whatever has that
// name.
void replace_file(const os::UniqueFd& directory, const std::string& name, std::string_view content);

}  // namespace daiv::runtime
