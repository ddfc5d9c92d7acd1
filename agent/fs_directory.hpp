#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/fs_root.hpp"
#include "os/unique_fd.hpp"

// Reading directories (getdents64(2)).
namespace daiv::agent {

enum class EntryKind : std::uint8_t { file, directory, link, other };

struct DirectoryEntry {
  std::string name;
  EntryKind kind = EntryKind::other;
};

// The entries without "." and "..", in byte order of their names. Links are not followed. Where the
// file system does not tell kinds, each entry is asked for its own; one that went away in between
// is `other`.
OrErrno<std::vector<DirectoryEntry>> list_directory(const os::UniqueFd& directory);

// What listings put before an entry's name: the path as the client spelled it, with exactly one
// slash at its end.
std::string listing_prefix(std::string_view path);

}  // namespace daiv::agent
