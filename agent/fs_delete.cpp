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

}  // namespace

DeleteReply fs_delete(const FsRoot& root, const DeleteRequest& request) {
  const std::string& path = request.path;
  // A link to a folder is refused like the folder.
  const OrErrno<struct stat> target = root.status(path);
  if (target && S_ISDIR(target->st_mode)) return is_a_directory(path);
  // The link itself, so that a dangling one is there. What can't be reached is not there for the
  // user.
  if (!root.link_status(path)) return {};
  // Never a directory, whatever took the name in between (unlink(2), EISDIR).
  if (::unlinkat(root.directory().get(), below_root(path), 0) == 0) return {true, {}};
  if (errno == ENOENT || errno == ENOTDIR) return {};
  if (errno == EISDIR) return is_a_directory(path);
  return failed(exec_failed("delete", path, errno));
}

}  // namespace daiv::agent
