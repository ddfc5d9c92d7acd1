#include "agent/fs_root.hpp"

#include <fcntl.h>

#include <cerrno>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

OrErrno<struct stat> status_at(const os::UniqueFd& directory, const std::string& path, int flags) {
  struct stat status{};
  if (::fstatat(directory.get(), below_root(path), &status, flags) != 0) {
    return std::unexpected(errno);
  }
  return status;
}

FsError is_a_directory(const std::string& path, DirectoryHint hint) {
  std::string message = "Is a directory: " + path;
  if (hint == DirectoryHint::use_ls) message += " (use fs/ls to list it)";
  return {FsErrorCode::is_a_directory, std::move(message)};
}

FsError open_error(const std::string& path, int errno_value, DirectoryHint hint) {
  if (errno_value == EISDIR) return is_a_directory(path, hint);
  // ENXIO is a socket, ENODEV a device without a driver (open(2)).
  if (is_absence(errno_value) || errno_value == ENXIO || errno_value == ENODEV) {
    return not_found("file", path);
  }
  if (errno_value == EACCES || errno_value == EPERM || errno_value == EROFS) {
    return permission_denied(path);
  }
  return exec_failed("open", path, errno_value);
}

}  // namespace

const char* below_root(const std::string& path) {
  const std::size_t begin = path.find_first_not_of('/');
  return begin == std::string::npos ? "." : path.c_str() + begin;
}

FsRoot FsRoot::of_process() { return FsRoot(os::open_file("/", O_PATH | O_DIRECTORY)); }

OrErrno<struct stat> FsRoot::status(const std::string& path) const {
  return status_at(directory_, path, 0);
}

OrErrno<struct stat> FsRoot::link_status(const std::string& path) const {
  return status_at(directory_, path, AT_SYMLINK_NOFOLLOW);
}

OrErrno<os::UniqueFd> FsRoot::open(const std::string& path, int flags) const {
  return open_quick(directory_, below_root(path), flags);
}

OrErrno<os::UniqueFd> open_quick(const os::UniqueFd& directory, const std::string& path,
                                 int flags) {
  const int fd = os::retry_eintr([&] {
    return ::openat(directory.get(), path.c_str(), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  });
  if (fd < 0) return std::unexpected(errno);
  return os::UniqueFd(fd);
}

std::expected<OpenFile, FsError> open_regular(const FsRoot& root, const std::string& path,
                                              int flags, DirectoryHint hint) {
  // Before the open: a device's open alone may have effects, and a directory without rights is
  // still one.
  const OrErrno<struct stat> before = root.status(path);
  if (!before) return std::unexpected(open_error(path, before.error(), hint));
  if (S_ISDIR(before->st_mode)) return std::unexpected(is_a_directory(path, hint));
  if (!S_ISREG(before->st_mode)) return std::unexpected(not_found("file", path));
  OrErrno<os::UniqueFd> fd = root.open(path, flags);
  if (!fd) return std::unexpected(open_error(path, fd.error(), hint));
  OpenFile file{std::move(*fd), {}};
  os::check(::fstat(file.fd.get(), &file.status), "fstat", path);
  // It may have been swapped in between.
  if (S_ISDIR(file.status.st_mode)) return std::unexpected(is_a_directory(path, hint));
  if (!S_ISREG(file.status.st_mode)) return std::unexpected(not_found("file", path));
  return file;
}

bool is_absence(int errno_value) {
  return errno_value == ENOENT || errno_value == ENOTDIR || errno_value == ELOOP ||
         errno_value == ENAMETOOLONG;
}

FsError not_found(std::string_view what, std::string_view path) {
  return {FsErrorCode::not_found, std::string("No such ").append(what).append(": ").append(path)};
}

FsError permission_denied(std::string_view path) {
  return {FsErrorCode::permission_denied, std::string("Permission denied: ").append(path)};
}

FsError exec_failed(std::string_view call, std::string_view path, int errno_value) {
  std::string message(call);
  message.append(" ").append(path).append(": ").append(os::describe_errno(errno_value));
  return {FsErrorCode::exec_failed, std::move(message)};
}

}  // namespace daiv::agent
