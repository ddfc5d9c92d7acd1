#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "agent/fs_directory.hpp"
#include "agent/fs_operations.hpp"

namespace daiv::agent {
namespace {

LsReply failed(FsError error) { return {{}, std::move(error)}; }

FsError listing_error(const std::string& path, int errno_value) {
  if (is_absence(errno_value)) return not_found("directory", path);
  if (errno_value == EACCES || errno_value == EPERM) return permission_denied(path);
  return exec_failed("open", path, errno_value);
}

}  // namespace

LsReply fs_ls(const FsRoot& root, const LsRequest& request) {
  const std::string& path = request.path;
  const OrErrno<struct stat> status = root.status(path);
  // Also for EACCES: what lies behind a locked directory can't be told from what is not there.
  if (!status) return failed(not_found("directory", path));
  if (!S_ISDIR(status->st_mode)) {
    return failed({FsErrorCode::not_a_directory, "Not a directory: " + path});
  }
  const OrErrno<os::UniqueFd> directory = root.open(path, O_RDONLY | O_DIRECTORY);
  if (!directory) return failed(listing_error(path, directory.error()));
  // Readable, but its entries can't be reached.
  if (::faccessat(directory->get(), ".", F_OK, AT_EACCESS) != 0)
    return failed(listing_error(path, errno));
  OrErrno<std::vector<DirectoryEntry>> entries = list_directory(*directory);
  if (!entries) return failed(listing_error(path, entries.error()));
  LsReply reply;
  reply.entries.reserve(entries->size());
  const std::string prefix = listing_prefix(path);
  for (const DirectoryEntry& entry : *entries) {
    reply.entries.push_back({prefix + entry.name, entry.kind == EntryKind::directory});
  }
  return reply;
}

}  // namespace daiv::agent
