#include "agent/seed_tree.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

// Names and orders of members that a file system can't hold, as opposed to a file system that
// fails.
bool is_impossible_name(int error) {
  return error == ENAMETOOLONG || error == ENOTDIR || error == ELOOP || error == EISDIR ||
         error == EEXIST || error == EILSEQ || error == EINVAL || error == ENOENT;
}

std::pair<std::string, std::string> split(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return {{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::array<timespec, 2> only_modified(timespec modified) {
  return {timespec{0, UTIME_OMIT}, modified};
}

enum class Existing { nothing, directory, link, other };

Existing find_existing(const os::UniqueFd& directory, const std::string& name) {
  struct stat status{};
  if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return Existing::nothing;
  if (S_ISDIR(status.st_mode)) return Existing::directory;
  return S_ISLNK(status.st_mode) ? Existing::link : Existing::other;
}

}  // namespace

std::optional<os::UniqueFd> SeedTree::open_or_make(const std::string& path) {
  try {
    return os::open_beneath(root_, path, directory_flags);
  } catch (const os::Error& error) {
    if (error.error_number() != ENOENT) {
      if (is_impossible_name(error.error_number())) return std::nullopt;
      throw;
    }
  }
  const auto [parent, name] = split(path);
  std::optional<os::UniqueFd> made;
  if (!parent.empty()) {
    made = open_or_make(parent);
    if (!made) return std::nullopt;
  }
  const os::UniqueFd& above = made ? *made : root_;
  if (::mkdirat(above.get(), name.c_str(), 0755) != 0) {
    if (is_impossible_name(errno)) return std::nullopt;
    os::throw_errno("mkdirat", path);
  }
  return os::open_at(above, name, directory_flags);
}

const os::UniqueFd* SeedTree::open_directory(const std::string& path) {
  if (path.empty()) return &root_;
  if (last_directory_ && path == last_path_) return &last_directory_;
  auto directory = open_or_make(path);
  if (!directory) return nullptr;
  last_directory_ = std::move(*directory);
  last_path_ = path;
  return &last_directory_;
}

std::optional<os::UniqueFd> SeedTree::create_file(const std::string& path, mode_t mode) {
  const auto [parent, name] = split(path);
  const os::UniqueFd* directory = open_directory(parent);
  if (directory == nullptr) return std::nullopt;
  for (int attempt = 0;; ++attempt) {
    const int fd = os::retry_eintr([&] {
      return ::openat(directory->get(), name.c_str(),
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    });
    if (fd >= 0) return os::UniqueFd(fd);
    if (errno == EEXIST && attempt == 0 && find_existing(*directory, name) == Existing::other) {
      ::unlinkat(directory->get(), name.c_str(), 0);
      continue;
    }
    if (is_impossible_name(errno)) return std::nullopt;
    os::throw_errno("openat", path);
  }
}

bool SeedTree::make_directory(const std::string& path, mode_t mode,
                              std::optional<timespec> modified) {
  const os::UniqueFd* directory = open_directory(path);
  if (directory == nullptr) return false;
  os::check(::fchmod(directory->get(), mode), "fchmod", path);
  if (modified) directory_times_.emplace_back(path, *modified);
  return true;
}

bool SeedTree::make_link(const std::string& path, const std::string& target,
                         std::optional<timespec> modified) {
  const auto [parent, name] = split(path);
  const os::UniqueFd* directory = open_directory(parent);
  if (directory == nullptr) return false;
  const auto existing = find_existing(*directory, name);
  if (existing == Existing::directory) return false;
  if (existing != Existing::nothing) ::unlinkat(directory->get(), name.c_str(), 0);
  if (::symlinkat(target.c_str(), directory->get(), name.c_str()) != 0) {
    if (is_impossible_name(errno)) return false;
    os::throw_errno("symlinkat", path);
  }
  if (modified) {
    const auto times = only_modified(*modified);
    ::utimensat(directory->get(), name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
  }
  return true;
}

void SeedTree::finish() {
  for (const auto& [path, modified] : directory_times_) {
    const auto times = only_modified(modified);
    ::utimensat(root_.get(), path.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
  }
  directory_times_.clear();
}

}  // namespace daiv::agent
