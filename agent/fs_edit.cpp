#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>

#include "agent/fs_new_file.hpp"
#include "agent/fs_operations.hpp"
#include "agent/fs_replace.hpp"
#include "agent/fs_utf8.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr int max_links = 40;  // as the kernel (path_resolution(7))

EditReply failed(FsError error) { return {{}, std::move(error)}; }

FsError write_error(std::string_view call, const std::string& path, int errno_value) {
  if (errno_value == EACCES || errno_value == EPERM || errno_value == EROFS) {
    return permission_denied(path);
  }
  return exec_failed(call, path, errno_value);
}

// The directory entry that a path leads to when its links are followed.
struct Place {
  os::UniqueFd directory;
  std::string name;
};

OrErrno<std::string> read_link(const os::UniqueFd& directory, const std::string& name) {
  std::array<char, PATH_MAX> buffer;  // NOLINT: filled by the kernel
  const ssize_t size = ::readlinkat(directory.get(), name.c_str(), buffer.data(), buffer.size());
  if (size < 0) return std::unexpected(errno);
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

// Follows the links of the last name by hand: rename(2) would replace the link, not the file.
OrErrno<Place> find_place(const FsRoot& root, std::string path) {
  const OrErrno<os::UniqueFd> top = root.open("/", O_PATH | O_DIRECTORY);
  if (!top) return std::unexpected(top.error());
  os::UniqueFd base = os::duplicate(*top);
  path = below_root(path);
  for (int links = 0; links < max_links; ++links) {
    while (path.ends_with('/')) path.pop_back();
    const std::size_t slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    OrErrno<os::UniqueFd> directory = open_quick(base, parent, O_PATH | O_DIRECTORY);
    if (!directory) return std::unexpected(directory.error());
    OrErrno<std::string> target = read_link(*directory, name);
    // EINVAL: no link (readlink(2)).
    if (!target && target.error() == EINVAL) return Place{std::move(*directory), std::move(name)};
    if (!target) return std::unexpected(target.error());
    path = std::move(*target);
    base = std::move(*directory);
  }
  return std::unexpected(ELOOP);
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Writes the new content beside the file and renames it over it. An empty result is done; errno
// where that can't be done so that mode, owner and links are kept.
std::optional<int> replace_by_rename(const FsRoot& root, const std::string& path,
                                     const struct stat& old, std::string_view content) {
  if (old.st_nlink > 1) return EMLINK;
  const OrErrno<Place> place = find_place(root, path);
  if (!place) return place.error();
  struct stat now{};
  if (::fstatat(place->directory.get(), place->name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno;
  }
  if (!is_same_file(now, old)) return ESTALE;
  OrErrno<NewFile> file = NewFile::create(place->directory);
  if (!file) return file.error();
  struct stat made{};
  if (::fstat(file->fd().get(), &made) != 0) return errno;
  if (made.st_uid != old.st_uid) return EPERM;
  if (made.st_gid != old.st_gid && ::fchown(file->fd().get(), uid_t(-1), old.st_gid) != 0) {
    return errno;
  }
  if (const int error = file->write(content); error != 0) return error;
  if (::fchmod(file->fd().get(), old.st_mode & 07777U) != 0) return errno;
  const int error = file->publish_over(place->name);
  return error == 0 ? std::nullopt : std::optional(error);
}

// The bytes of `content` from `begin` to `end` are all that must be written over `old`.
struct Change {
  std::size_t begin;
  std::size_t end;
};

Change find_change(std::string_view old, std::string_view content) {
  const auto begin =
      static_cast<std::size_t>(std::ranges::mismatch(old, content).in2 - content.begin());
  std::size_t end = content.size();
  if (old.size() == content.size()) {
    while (end > begin && old[end - 1] == content[end - 1]) --end;
  }
  return {begin, end};
}

// For files that can't be replaced whole. The room is taken first, so that a full disk spoils
// nothing. Who reads meanwhile may see a part of both texts: the less is written, and the fewer
// calls there are, the shorter that lasts.
int replace_in_place(const os::UniqueFd& fd, std::string_view old, std::string_view content) {
  const Change change = find_change(old, content);
  const auto begin = static_cast<off_t>(change.begin);
  const auto size = static_cast<off_t>(change.end - change.begin);
  if (size > 0 && ::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, begin, size) != 0 &&
      errno != EOPNOTSUPP) {
    return errno;
  }
  for (std::size_t at = change.begin; at < change.end;) {  // one call as a rule
    const ssize_t count = os::retry_eintr([&] {
      return ::pwrite64(fd.get(), content.data() + at, change.end - at, static_cast<off_t>(at));
    });
    if (count < 0) return errno;
    at += static_cast<std::size_t>(count);
  }
  return ::ftruncate(fd.get(), static_cast<off_t>(content.size())) == 0 ? 0 : errno;
}

std::expected<std::string, FsError> read_text(const OpenFile& file, const std::string& path) {
  FsError too_large{FsErrorCode::too_large, "File exceeds the maximum edit size of " +
                                                std::to_string(max_edit_bytes) + " bytes: " + path};
  if (static_cast<std::uint64_t>(file.status.st_size) > max_edit_bytes) {
    return std::unexpected(std::move(too_large));
  }
  std::string content(static_cast<std::size_t>(file.status.st_size), '\0');
  content.resize(os::read_full(file.fd, std::as_writable_bytes(std::span(content))));
  if (valid_utf8_prefix(content) != content.size()) {
    return std::unexpected(FsError{FsErrorCode::not_a_text_file, "Not a text file: " + path});
  }
  return content;
}

}  // namespace

EditReply fs_edit(const FsRoot& root, const EditRequest& request) {
  const std::string& path = request.path;
  // Opened for writing too: a file that the user may not write is not replaced by way of its folder
  // either.
  const auto file = open_regular(root, path, O_RDWR, DirectoryHint::none);
  if (!file) return failed(file.error());
  const auto text = read_text(*file, path);
  if (!text) return failed(text.error());
  const auto result =
      replace_text(*text, request.old_text, request.new_text, request.replace, max_edit_bytes);
  if (!result) return failed(result.error());
  const std::optional<int> refused = replace_by_rename(root, path, file->status, result->text);
  if (refused && (*refused == ENOSPC || *refused == EDQUOT || *refused == EIO)) {
    return failed(write_error("write", path, *refused));
  }
  if (refused) {
    const int error = replace_in_place(file->fd, *text, result->text);
    if (error != 0) return failed(write_error("write", path, error));
  }
  return {result->occurrences, {}};
}

}  // namespace daiv::agent
