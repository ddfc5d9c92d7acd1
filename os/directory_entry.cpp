#include "os/directory_entry.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <memory>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::os {

namespace {

constexpr int max_rename_races = 8;

Made made_or_throw(int result, std::string_view call, std::string_view name) {
  if (result == 0) return Made::yes;
  if (errno == EEXIST) return Made::exists;
  throw_errno(call, name);
}

std::array<timespec, 2> access_and_modified(timespec time) { return {time, time}; }

struct CloseDirectory {
  void operator()(DIR* stream) const noexcept { ::closedir(stream); }
};

}  // namespace

Made make_directory_at(const UniqueFd& directory, const std::string& name, mode_t mode) {
  return made_or_throw(::mkdirat(directory.get(), name.c_str(), mode), "mkdirat", name);
}

Made make_symlink_at(const std::string& target, const UniqueFd& directory,
                     const std::string& name) {
  return made_or_throw(::symlinkat(target.c_str(), directory.get(), name.c_str()), "symlinkat",
                       name);
}

Made make_node_at(const UniqueFd& directory, const std::string& name, mode_t mode, dev_t device) {
  return made_or_throw(::mknodat(directory.get(), name.c_str(), mode, device), "mknodat", name);
}

Linked make_link_at(const UniqueFd& old_directory, const std::string& old_name,
                    const UniqueFd& directory, const std::string& name) {
  if (::linkat(old_directory.get(), old_name.c_str(), directory.get(), name.c_str(), 0) == 0)
    return Linked::yes;
  if (errno == EEXIST) return Linked::exists;
  if (errno == ENOENT) return Linked::no_target;
  throw_errno("linkat", name);
}

std::optional<UniqueFd> create_file_at(const UniqueFd& directory, const std::string& name,
                                       mode_t mode) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int fd = retry_eintr([&] { return ::openat(directory.get(), name.c_str(), flags, mode); });
  if (fd >= 0) return UniqueFd(fd);
  if (errno == EEXIST) return std::nullopt;
  throw_errno("openat", name);
}

std::expected<UniqueFd, int> try_open_beneath(const UniqueFd& root, const std::string& path,
                                              int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  for (int attempt = 0;; ++attempt) {
    const long fd = retry_eintr(
        [&] { return ::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how); });
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno != EAGAIN || attempt == max_rename_races) return std::unexpected(errno);
  }
}

std::optional<struct stat> stat_at(const UniqueFd& directory, const std::string& name) {
  struct stat status{};
  if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return status;
  if (errno == ENOENT) return std::nullopt;
  throw_errno("fstatat", name);
}

std::string read_link_at(const UniqueFd& directory, const std::string& name) {
  std::string target(PATH_MAX, '\0');
  const auto length =
      check(::readlinkat(directory.get(), name.c_str(), target.data(), target.size()), "readlinkat",
            name);
  target.resize(static_cast<std::size_t>(length));
  return target;
}

std::vector<std::string> list_directory(const UniqueFd& directory) {
  UniqueFd own = open_at(
      directory, ".", O_RDONLY | O_DIRECTORY);  // fdopendir(3) takes it, with an offset of its own
  const std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(own.get()));
  if (!stream) throw_errno("fdopendir", "directory");
  static_cast<void>(own.release());
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) throw_errno("readdir", "directory");
  return names;
}

void remove_tree_at(const UniqueFd& directory, const std::string& name) {
  if (::unlinkat(directory.get(), name.c_str(), 0) == 0 || errno == ENOENT) return;
  if (errno != EISDIR) throw_errno("unlinkat", name);
  {
    const UniqueFd inner = open_at(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    for (const std::string& entry : list_directory(inner)) remove_tree_at(inner, entry);
  }
  if (::unlinkat(directory.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    throw_errno("unlinkat", name);
}

void set_owner(const UniqueFd& file, uid_t uid, gid_t gid) {
  check(::fchown(file.get(), uid, gid), "fchown", "file");
}

void set_owner_at(const UniqueFd& directory, const std::string& name, uid_t uid, gid_t gid) {
  check(::fchownat(directory.get(), name.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW), "fchownat", name);
}

void set_mode(const UniqueFd& file, mode_t mode) {
  check(::fchmod(file.get(), mode), "fchmod", "file");
}

void set_modified(const UniqueFd& file, timespec time) {
  check(::futimens(file.get(), access_and_modified(time).data()), "utimensat", "file");
}

void set_modified_at(const UniqueFd& directory, const std::string& name, timespec time) {
  check(::utimensat(directory.get(), name.c_str(), access_and_modified(time).data(),
                    AT_SYMLINK_NOFOLLOW),
        "utimensat", name);
}

void set_xattr(const UniqueFd& file, const std::string& name, std::string_view value) {
  check(::fsetxattr(file.get(), name.c_str(), value.data(), value.size(), 0), "fsetxattr", name);
}

std::vector<std::string> list_xattrs(const UniqueFd& file) {
  std::string names(XATTR_LIST_MAX, '\0');
  const auto size = ::flistxattr(file.get(), names.data(), names.size());
  if (size < 0 && errno == EOPNOTSUPP) return {};
  names.resize(static_cast<std::size_t>(check(size, "flistxattr", "file")));
  std::vector<std::string> list;
  for (std::size_t begin = 0; begin < names.size(); begin = names.find('\0', begin) + 1)
    list.emplace_back(names.c_str() + begin);
  return list;
}

std::string get_xattr(const UniqueFd& file, const std::string& name) {
  std::string value(XATTR_SIZE_MAX, '\0');
  const auto size = ::fgetxattr(file.get(), name.c_str(), value.data(), value.size());
  value.resize(static_cast<std::size_t>(check(size, "fgetxattr", name)));
  return value;
}

void write_at(const UniqueFd& file, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const auto count =
        check(retry_eintr([&] {
                return ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
              }),
              "pwrite", "file");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void set_length(const UniqueFd& file, std::uint64_t length) {
  if (length > static_cast<std::uint64_t>(LLONG_MAX)) throw Error(EFBIG, "ftruncate", "file");
  check(::ftruncate(file.get(), static_cast<off_t>(length)), "ftruncate", "file");
}

}  // namespace daiv::os
