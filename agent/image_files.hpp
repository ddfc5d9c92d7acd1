#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/unique_fd.hpp"

// Files of the image, below the descriptor of its root: its symlinks are followed inside only.
// Meant for a time when nothing of the image runs. All throw os::Error, unless they say otherwise.
namespace daiv::agent {

// `path` up to its last slash; the whole of it where there is none.
std::string parent_of(const std::string& path);

// Empty where it is missing, or nothing that could hold files.
std::optional<os::UniqueFd> find_directory(const os::UniqueFd& root, const std::string& path);

// Makes what is missing of it, each 0755.
os::UniqueFd open_or_make_directory(const os::UniqueFd& root, const std::string& path);

// A regular file, opened with `access` (open(2)). Empty where there is none. Never blocks, whatever
// the image has put there (open(2), O_NONBLOCK on a FIFO).
std::optional<os::UniqueFd> find_file(const os::UniqueFd& root, const std::string& path,
                                      int access);

// Makes `path` a file of mode 0644 that holds `parts`, one behind the other. A file that is there
// is replaced where it lies, so that a link of the image to its real file stays one. Never opened
// for writing: overlayfs would copy it up and sync the copy first (overlayfs.rst, Non-directories).
// What is no regular file is replaced too.
void write_file(const os::UniqueFd& root, const std::string& path,
                std::initializer_list<std::string_view> parts);

// The names in the directory `path` below `root`, without "." and ".."; no link is followed.
std::vector<std::string> list_names(const os::UniqueFd& root, const std::string& path);

}  // namespace daiv::agent
