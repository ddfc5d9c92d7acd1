#include "agent/fs_search_base.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace daiv::agent {
namespace {

FsError open_error(const std::string& path, std::string_view what, int errno_value) {
  if (is_absence(errno_value)) return not_found(what, path);
  if (errno_value == EACCES || errno_value == EPERM) return permission_denied(path);
  return exec_failed("open", path, errno_value);
}

}  // namespace

std::expected<SearchBase, FsError> open_search_base(const FsRoot& root, const std::string& path,
                                                    SearchKind kind) {
  const std::string_view what = kind == SearchKind::grep ? "path" : "directory";
  const OrErrno<struct stat> status = root.status(path);
  if (!status) return std::unexpected(not_found(what, path));
  SearchBase base;
  base.is_file = S_ISREG(status->st_mode);
  if (!S_ISDIR(status->st_mode)) {
    if (kind == SearchKind::grep) return base;
    return std::unexpected(FsError{FsErrorCode::not_a_directory, "Not a directory: " + path});
  }
  // A link is not walked through, unless a slash at the end asks for it (find(1), "-P").
  const OrErrno<struct stat> itself = root.link_status(path);
  if (itself && S_ISLNK(itself->st_mode)) return base;
  OrErrno<os::UniqueFd> directory = root.open(path, O_RDONLY | O_DIRECTORY);
  if (!directory) return std::unexpected(open_error(path, what, directory.error()));
  // Readable, but nothing in it can be reached.
  if (::faccessat(directory->get(), ".", F_OK, 0) != 0) {
    return std::unexpected(open_error(path, what, errno));
  }
  base.directory = std::move(*directory);
  return base;
}

}  // namespace daiv::agent
