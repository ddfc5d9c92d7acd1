#include "agent/image_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr mode_t file_mode = 0644;
constexpr mode_t directory_mode = 0755;
constexpr const char* unfinished = ".daiv-sandbox-new";  // beside the file that it becomes
constexpr int max_links = 40;  // as many as the kernel follows (path_resolution(7))

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void remove_file(const os::UniqueFd& directory, const std::string& name) {
  if (::unlinkat(directory.get(), name.c_str(), 0) != 0 && errno != ENOENT)
    os::throw_errno("unlinkat", name);
}

// A name in its real directory.
struct Location {
  os::UniqueFd directory;
  std::string name;
};

// Where the file lies that `path` leads to over links.
Location follow_links(const os::UniqueFd& root, const std::string& path) {
  std::string at = "/" + path;  // an absolute path begins at `root` (openat2(2), RESOLVE_IN_ROOT)
  for (int links = 0; links < max_links; ++links) {
    Location place{os::open_in_root(root, parent_of(at) + "/", O_PATH | O_DIRECTORY), name_of(at)};
    std::array<char, PATH_MAX> target{};
    const ssize_t size =
        ::readlinkat(place.directory.get(), place.name.c_str(), target.data(), target.size());
    if (size < 0) {
      if (errno == EINVAL) return place;  // no link
      os::throw_errno("readlinkat", path);
    }
    std::string next(target.data(), static_cast<std::size_t>(size));
    at = next.starts_with('/') ? std::move(next) : parent_of(at) + "/" + next;
  }
  throw os::Error(ELOOP, "readlinkat", path);
}

// Where a file of this path is to be, what is in the way removed.
Location make_location(const os::UniqueFd& root, const std::string& path) {
  Location place{open_or_make_directory(root, parent_of(path)), name_of(path)};
  remove_file(place.directory, place.name);
  return place;
}

}  // namespace

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::optional<os::UniqueFd> find_directory(const os::UniqueFd& root, const std::string& path) {
  os::UniqueFd directory = os::find_in_root(root, path, O_RDONLY | O_DIRECTORY);
  if (!directory) return std::nullopt;  // missing, or nothing that could hold files
  return directory;
}

os::UniqueFd open_or_make_directory(const os::UniqueFd& root, const std::string& path) {
  if (auto found = find_directory(root, path)) return std::move(*found);
  const auto slash = path.rfind('/');
  const os::UniqueFd parent = slash == std::string::npos
                                  ? os::duplicate(root)
                                  : open_or_make_directory(root, path.substr(0, slash));
  if (::mkdirat(parent.get(), name_of(path).c_str(), directory_mode) != 0 && errno != EEXIST)
    os::throw_errno("mkdirat", path);
  return os::open_in_root(root, path, O_RDONLY | O_DIRECTORY);
}

std::optional<os::UniqueFd> find_file(const os::UniqueFd& root, const std::string& path,
                                      int access) {
  os::UniqueFd file = os::find_in_root(root, path, access | O_NONBLOCK | O_NOCTTY);
  if (!file) return std::nullopt;  // missing, a FIFO without a reader, a loop of links
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return file;
}

void write_file(const os::UniqueFd& root, const std::string& path,
                std::initializer_list<std::string_view> parts) {
  const Location place =
      find_file(root, path, O_RDONLY) ? follow_links(root, path) : make_location(root, path);
  remove_file(place.directory, unfinished);
  const os::UniqueFd file =
      os::open_at(place.directory, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, file_mode);
  for (const std::string_view part : parts) os::write_full(file, part);
  os::check(::fchmod(file.get(), file_mode), "fchmod", path);
  os::check(
      ::renameat(place.directory.get(), unfinished, place.directory.get(), place.name.c_str()),
      "renameat", path);
}

std::vector<std::string> list_names(const os::UniqueFd& root, const std::string& path) {
  os::UniqueFd fd = os::open_at(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
  if (!directory) os::throw_errno("fdopendir", path);
  [[maybe_unused]] const int owned_by_directory = fd.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

}  // namespace daiv::agent
