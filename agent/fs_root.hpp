#pragma once

#include <sys/stat.h>

#include <expected>
#include <string>
#include <string_view>

#include "agent/fs_protocol.hpp"
#include "os/unique_fd.hpp"

// How file operations reach files: by paths of the API below one directory descriptor, which is "/"
// in a sandbox and a temporary directory in tests. Links are followed as the kernel does: the
// sandbox is the boundary, not the path.
namespace daiv::agent {

// The result of a system call whose failure the caller branches on: the value or errno.
template <typename Value>
using OrErrno = std::expected<Value, int>;

class FsRoot {
public:
  // Takes a directory that stands for "/".
  explicit FsRoot(os::UniqueFd directory) noexcept : directory_(std::move(directory)) {}

  // The sandbox's own "/". Throws os::Error.
  static FsRoot of_process();

  // fstatat(2) of an absolute path; follows links.
  [[nodiscard]] OrErrno<struct stat> status(const std::string& path) const;
  // The same of the link itself.
  [[nodiscard]] OrErrno<struct stat> link_status(const std::string& path) const;

  // openat(2) of an absolute path with O_CLOEXEC, O_NOCTTY and O_NONBLOCK: neither a FIFO nor a
  // lease can block it.
  [[nodiscard]] OrErrno<os::UniqueFd> open(const std::string& path, int flags) const;

  [[nodiscard]] const os::UniqueFd& directory() const noexcept { return directory_; }

private:
  os::UniqueFd directory_;
};

// The same for a path below an open directory.
OrErrno<os::UniqueFd> open_quick(const os::UniqueFd& directory, const std::string& path, int flags);

// A regular file that is open for reading, and what fstat(2) says of it.
struct OpenFile {
  os::UniqueFd fd;
  struct stat status{};
};

// Whether what a path leads to is a directory is told in two ways: "Is a directory: P", with or
// without advice.
enum class DirectoryHint { none, use_ls };

// Opens the regular file that `path` leads to with `flags`. Errors: is_a_directory;
// permission_denied; not_found for all that is no file of any name ("No such file: P"), FIFOs,
// sockets and devices too; exec_failed for the rest.
std::expected<OpenFile, FsError> open_regular(const FsRoot& root, const std::string& path,
                                              int flags, DirectoryHint hint);

// Whether `errno_value` says that no file can have that name as it stands (ENOENT, ENOTDIR, ELOOP,
// ENAMETOOLONG).
bool is_absence(int errno_value);

FsError not_found(std::string_view what, std::string_view path);  // "No such <what>: <path>"
FsError permission_denied(std::string_view path);
FsError exec_failed(std::string_view call, std::string_view path, int errno_value);

// The path without leading slashes, so that it is relative to a root; "." for "/".
const char* below_root(const std::string& path);

}  // namespace daiv::agent
