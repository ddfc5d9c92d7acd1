#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "agent/fs_operations.hpp"

namespace daiv::agent {
namespace {

DeleteReply failed(FsError error) { return {false, std::move(error)}; }

DeleteReply is_a_directory(const std::string& path) {
  return failed({FsErrorCode::is_a_directory, "Is a directory: " + path});
}

DeleteReply unreachable(const std::string& path, int errno_value) {
  if (is_absence(errno_value)) return {};
  // A directory on the way can't be searched: whether the file is there is not known.
  if (errno_value == EACCES || errno_value == EPERM) return failed(permission_denied(path));
  return failed(exec_failed("delete", path, errno_value));
}

}  // namespace

DeleteReply fs_delete(const FsRoot& root, const DeleteRequest& request) {
  const std::string& path = request.path;
  // A link to a folder is refused like the folder.
  const OrErrno<struct stat> target = root.status(path);
  if (target && S_ISDIR(target->st_mode)) return is_a_directory(path);
  // The link itself, so that a dangling one is there.
  const OrErrno<struct stat> itself = root.link_status(path);
  if (!itself) return unreachable(path, itself.error());
  // Never a directory, whatever took the name in between (unlink(2), EISDIR).
  if (::unlinkat(root.directory().get(), below_root(path), 0) == 0) return {true, {}};
  if (is_absence(errno)) return {};
  if (errno == EISDIR) return is_a_directory(path);
  return failed(exec_failed("delete", path, errno));
}

}  // namespace daiv::agent
