#include "runtime/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::runtime {
namespace {

constexpr mode_t file_mode = 0644;

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};
using DirectoryStream = std::unique_ptr<DIR, CloseDirectory>;

DirectoryStream open_stream(const os::UniqueFd& directory) {
  os::UniqueFd copy = os::open_at(directory, ".", O_RDONLY | O_DIRECTORY);
  DIR* stream = ::fdopendir(copy.get());
  if (stream == nullptr) os::throw_errno("fdopendir", "directory");
  static_cast<void>(copy.release());
  return DirectoryStream(stream);
}

bool is_directory(int parent, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat status{};
  return ::fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(status.st_mode);
}

// Calls visit(entry, is_directory) for each entry.
template <typename Visit>
void for_each_entry(const os::UniqueFd& directory, Visit&& visit) {
  const DirectoryStream stream = open_stream(directory);
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) os::throw_errno("readdir", "directory");
      return;
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") visit(*entry, is_directory(directory.get(), *entry));
  }
}

enum class Removed : std::uint8_t { yes, is_directory };

Removed unlink_file(const os::UniqueFd& parent, const std::string& name) {
  if (::unlinkat(parent.get(), name.c_str(), 0) == 0 || errno == ENOENT) return Removed::yes;
  if (errno == EISDIR || errno == EPERM) return Removed::is_directory;
  os::throw_errno("unlinkat", name);
}

// The tree may hold names like ours, so a taken one is passed over (renameat2(2),
// RENAME_NOREPLACE). Empty where the directory can't move: overlayfs refuses that for one of a
// lower layer (overlayfs.rst, Renaming directories).
std::optional<std::string> move_to_free_name(const os::UniqueFd& from, const std::string& child,
                                             const os::UniqueFd& to, std::uint64_t& counter) {
  for (;;) {
    std::string name = ".removed-" + std::to_string(counter++);
    if (::renameat2(from.get(), child.c_str(), to.get(), name.c_str(), RENAME_NOREPLACE) == 0)
      return name;
    if (errno == EXDEV) return std::nullopt;
    if (errno != EEXIST) os::throw_errno("renameat2", child);
  }
}

void remove_directory(const os::UniqueFd& parent, const std::string& name);

// Deletes what is no directory in `directory`, and moves each directory into `hold` under a new
// name. So a tree of any depth is taken apart level by level.
void flatten(const os::UniqueFd& directory, const os::UniqueFd& hold, std::uint64_t& counter,
             std::vector<std::string>& found) {
  std::vector<std::string> children;
  for_each_entry(directory, [&](const dirent& entry, bool is_child_directory) {
    if (is_child_directory) {
      children.emplace_back(entry.d_name);
    } else {
      os::check(::unlinkat(directory.get(), entry.d_name, 0), "unlinkat", entry.d_name);
    }
  });
  for (const std::string& child : children) {
    // Most directories are empty or soon will be; the others move.
    if (::unlinkat(directory.get(), child.c_str(), AT_REMOVEDIR) == 0) continue;
    if (auto name = move_to_free_name(directory, child, hold, counter)) {
      found.push_back(std::move(*name));
    } else {
      remove_directory(directory, child);  // as deep as there are descriptors
    }
  }
}

void remove_directory(const os::UniqueFd& parent, const std::string& name) {
  const os::UniqueFd top = os::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  std::uint64_t counter = 0;
  std::vector<std::string> pending;
  flatten(top, top, counter, pending);
  while (!pending.empty()) {
    const std::string next = std::move(pending.back());
    pending.pop_back();
    {
      const os::UniqueFd directory = os::open_at(top, next, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      flatten(directory, top, counter, pending);
    }
    os::check(::unlinkat(top.get(), next.c_str(), AT_REMOVEDIR), "rmdir", next);
  }
  os::check(::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR), "rmdir", name);
}

// Whether `name` is a file as replace_file() makes it, and nobody else's: then it can stay, which
// spares a file system the freeing of its blocks.
bool holds(const os::UniqueFd& directory, const std::string& name, std::string_view content) {
  const os::UniqueFd file(::openat(directory.get(), name.c_str(),
                                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return false;
  if (!S_ISREG(status.st_mode) || (status.st_mode & 07777U) != file_mode || status.st_nlink != 1 ||
      status.st_uid != ::geteuid() || status.st_gid != ::getegid() ||
      status.st_size != static_cast<off_t>(content.size()))
    return false;
  std::string found(content.size(), '\0');
  const std::size_t size = os::read_full(file, std::as_writable_bytes(std::span(found)));
  return size == content.size() && found == content;
}

os::UniqueFd find_directory(const os::UniqueFd& parent, const std::string& name) {
  return os::UniqueFd(
      ::openat(parent.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

std::vector<std::string> list_entries(const os::UniqueFd& directory) {
  std::vector<std::string> names;
  for_each_entry(directory, [&](const dirent& entry, bool) { names.emplace_back(entry.d_name); });
  return names;
}

std::vector<std::string> list_directories(const os::UniqueFd& directory) {
  std::vector<std::string> names;
  for_each_entry(directory, [&](const dirent& entry, bool is_child_directory) {
    if (is_child_directory) names.emplace_back(entry.d_name);
  });
  return names;
}

void remove_tree(const os::UniqueFd& parent, const std::string& name) {
  if (unlink_file(parent, name) == Removed::is_directory) remove_directory(parent, name);
}

os::UniqueFd open_own_directory(const os::UniqueFd& parent, const std::string& name, mode_t mode,
                                Owner owner) {
  os::UniqueFd found = find_directory(parent, name);
  if (found) return found;
  if (errno != ENOENT) remove_tree(parent, name);
  os::check(::mkdirat(parent.get(), name.c_str(), 0700), "mkdirat", name);
  os::check(::fchownat(parent.get(), name.c_str(), owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW),
            "fchownat", name);
  const os::UniqueFd made = os::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  os::check(::fchmod(made.get(), mode), "fchmod", name);  // after the owner, past the umask
  found = find_directory(parent, name);
  if (!found) os::throw_errno("openat", name);
  return found;
}

os::UniqueFd open_image_directory(const os::UniqueFd& root, const std::string& path, mode_t mode,
                                  Owner owner) {
  os::UniqueFd found = os::find_in_root(root, path, O_PATH | O_DIRECTORY);
  return found ? std::move(found) : open_own_directory(root, path, mode, owner);
}

void replace_file(const os::UniqueFd& directory, const std::string& name,
                  std::string_view content) {
  if (holds(directory, name, content)) return;
  remove_tree(directory, name);
  const os::UniqueFd file =
      os::open_at(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, file_mode);
  os::write_full(file, content);
  os::check(::fchmod(file.get(), file_mode), "fchmod", name);
}

}  // namespace daiv::runtime
