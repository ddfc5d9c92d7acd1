#pragma once

#include <expected>
#include <string>

#include "agent/fs_root.hpp"
#include "os/unique_fd.hpp"

// Where a search (grep, glob) begins.
namespace daiv::agent {

// grep takes files too and says "No such path", glob takes directories only and says "No such
// directory".
enum class SearchKind { grep, glob };

struct SearchBase {
  os::UniqueFd directory;  // empty where there is nothing to walk: a link to a directory, or no
                           // directory at all
  bool is_file = false;    // a regular file, or a link to one
};

// Errors: not_found (also where the way to it is locked), not_a_directory (glob),
// permission_denied.
std::expected<SearchBase, FsError> open_search_base(const FsRoot& root, const std::string& path,
                                                    SearchKind kind);

}  // namespace daiv::agent
