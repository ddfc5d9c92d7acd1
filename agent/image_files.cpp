#include "agent/image_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr mode_t file_mode = 0644;
constexpr mode_t directory_mode = 0755;

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::optional<os::UniqueFd> find_directory(const os::UniqueFd& root, const std::string& path) {
  try {
    return os::open_in_root(root, path, O_RDONLY | O_DIRECTORY);
  } catch (const os::Error&) {  // missing, or nothing that could hold files
    return std::nullopt;
  }
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
  try {
    os::UniqueFd file = os::open_in_root(root, path, access | O_NONBLOCK | O_NOCTTY);
    struct stat status{};
    os::check(::fstat(file.get(), &status), "fstat", path);
    if (S_ISREG(status.st_mode)) return file;
  } catch (const os::Error&) {  // missing, a FIFO without a reader, a loop of links
  }
  return std::nullopt;
}

void write_file(const os::UniqueFd& root, const std::string& path, std::string_view text) {
  auto file = find_file(root, path, O_WRONLY);
  if (file) {
    os::check(::ftruncate(file->get(), 0), "ftruncate", path);
  } else {
    const os::UniqueFd directory = open_or_make_directory(root, parent_of(path));
    const std::string name = name_of(path);
    if (::unlinkat(directory.get(), name.c_str(), 0) != 0 && errno != ENOENT)
      os::throw_errno("unlinkat", path);
    file = os::open_at(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, file_mode);
  }
  os::write_full(*file, text);
  os::check(::fchmod(file->get(), file_mode), "fchmod", path);
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
