#pragma once

#include <string>
#include <vector>

#include "agent/fs_protocol.hpp"
#include "agent/fs_root.hpp"

// The file operations, each a function of the root and the request. What the client may have caused
// is in the reply's error; os::Error is thrown for what no client can cause. Links are followed
// with the rights of the calling process.
namespace daiv::agent {

// Directories that a search leaves out, as shell patterns on their names; the directory asked for
// is never left out.
using PruneList = std::vector<std::string>;

// The entries in byte order. A directory that can't be both read and entered is permission_denied.
LsReply fs_ls(const FsRoot& root, const LsRequest& request);

// Constant memory for any file: it is read once, in pieces; holes are skipped. What is appended
// after the start is not read.
ReadReply fs_read(const FsRoot& root, const ReadRequest& request);

// The first max_grep_matches matches, the same for the same tree: folder by folder, then file by
// file, in byte order. Of a tree, a file is searched up to a line above max_line_bytes, and what
// lies too deep for a path is passed over: `truncated` says so.
GrepReply fs_grep(const FsRoot& root, const GrepRequest& request, const PruneList& prune);

GlobReply fs_glob(const FsRoot& root, const GlobRequest& request, const PruneList& prune);

// Creates a file that appears whole or not at all; makes missing parents (0755). Never replaces
// anything.
WriteReply fs_write(const FsRoot& root, const WriteRequest& request);

// Replaces text in a file. Readers see the old or the new file (rename(2)), which keeps its mode
// and owner. Where that cannot be (more than one hard link, another owner, a directory that the
// user can't write) the part that changes is written in place, by one call.
EditReply fs_edit(const FsRoot& root, const EditRequest& request);

// Removes anything but a directory, or a link to one. What lies behind a directory that can't be
// entered is permission_denied, as nothing tells whether it is there.
DeleteReply fs_delete(const FsRoot& root, const DeleteRequest& request);

// Limits of edit, in bytes of the file before and after.
inline constexpr std::size_t max_edit_bytes = 64U << 20;

}  // namespace daiv::agent
