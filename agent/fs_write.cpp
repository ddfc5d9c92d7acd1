#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "agent/fs_new_file.hpp"
#include "agent/fs_operations.hpp"

namespace daiv::agent {
namespace {

constexpr mode_t parent_mode = 0755;

// The names of a path, without empty ones and ".".
std::vector<std::string> path_names(std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") names.emplace_back(name);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return names;
}

// Readable by all, writable by the owner, executable by all or none, without special bits.
mode_t normalise_mode(std::uint32_t mode) {
  const mode_t plain = (mode & 0777U) | 0644U;
  return (plain & 0111U) != 0 ? plain | 0111U : plain;
}

FsError write_error(std::string_view call, const std::string& path, int errno_value) {
  if (errno_value == EACCES || errno_value == EPERM || errno_value == EROFS) {
    return permission_denied(path);
  }
  return exec_failed(call, path, errno_value);
}

FsError already_exists(const std::string& path) {
  return {FsErrorCode::already_exists,
          "Cannot write to " + path +
              " because it already exists. Read and then make an edit, or write to a new path."};
}

// Opens the directory `names` but for the last one, and makes what is missing of it.
OrErrno<os::UniqueFd> open_parent(const FsRoot& root, const std::vector<std::string>& names) {
  OrErrno<os::UniqueFd> directory = root.open("/", O_PATH | O_DIRECTORY);
  for (std::size_t i = 0; directory && i + 1 < names.size(); ++i) {
    OrErrno<os::UniqueFd> next = open_quick(*directory, names[i], O_PATH | O_DIRECTORY);
    if (!next && next.error() == ENOENT) {
      if (::mkdirat(directory->get(), names[i].c_str(), parent_mode) != 0 && errno != EEXIST) {
        return std::unexpected(errno);
      }
      next = open_quick(*directory, names[i], O_PATH | O_DIRECTORY);
    }
    directory = std::move(next);
  }
  return directory;
}

bool exists(const os::UniqueFd& directory, const std::string& name) {
  struct stat status{};
  return ::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

WriteReply fs_write(const FsRoot& root, const WriteRequest& request) {
  const std::string& path = request.path;
  const std::vector<std::string> names = path_names(path);
  const std::string& name = names.back();
  const OrErrno<os::UniqueFd> parent = open_parent(root, names);
  if (!parent) return {write_error("open parent of", path, parent.error())};
  // Asked first, so that a folder that can't be written still tells what it holds.
  if (exists(*parent, name)) return {already_exists(path)};
  OrErrno<NewFile> file = NewFile::create(*parent);
  if (!file) return {write_error("create", path, file.error())};
  if (const int error = file->write(request.content); error != 0) {
    return {write_error("write", path, error)};
  }
  // By descriptor: the mode asked for counts, not the umask.
  if (::fchmod(file->fd().get(), normalise_mode(request.mode)) != 0) {
    return {write_error("chmod", path, errno)};
  }
  const int error = file->publish_new(name);
  if (error == EEXIST) return {already_exists(path)};
  if (error != 0) return {write_error("rename", path, error)};
  return {};
}

}  // namespace daiv::agent
