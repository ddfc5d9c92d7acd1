#include "images/unpack/parents.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "images/unpack/unpack_error.hpp"
#include "os/directory_entry.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images::unpack {

namespace {

constexpr std::size_t copy_bytes = std::size_t{128} << 10U;
constexpr mode_t all_bits = 07777;
constexpr int max_links = 40;  // path_resolution(7)

struct stat status_of(const os::UniqueFd& file) {
  struct stat status{};
  os::check(::fstat(file.get(), &status), "fstat", "parents");
  return status;
}

[[noreturn]] void refuse(const EntryPath& path, const char* why) {
  throw UnpackError(Status::corrupt,
                    fmt::format("a hard link to {}, {}", printable(path.string()), why));
}

os::UniqueFd open_parents(const os::UniqueFd& parents, const std::string& path, int flags,
                          const EntryPath& wanted) {
  auto opened = os::try_open_beneath(parents, path.empty() ? "." : path, flags | O_NOFOLLOW);
  if (opened) return std::move(*opened);
  switch (opened.error()) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      refuse(wanted, "which is neither here nor in the layers below");
    default:
      throw os::Error(opened.error(), "openat2", printable(path));
  }
}

// The directory that a path of the tree really is, its symlinks walked with the tree's root as the
// end of every ".." (openat2(2) would resolve them, but not say where it went).
std::string real_directory(const os::UniqueFd& parents, const EntryPath& wanted) {
  std::string at;
  std::string rest = wanted.parent;
  int links_left = max_links;
  while (!rest.empty()) {
    const std::size_t slash = rest.find('/');
    const std::string name = rest.substr(0, slash);
    rest = slash == std::string::npos ? "" : rest.substr(slash + 1);
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      at.erase(at.rfind('/') == std::string::npos ? 0 : at.rfind('/'));
      continue;
    }
    const std::string next = join_path(at, name);
    if (!S_ISLNK(status_of(open_parents(parents, next, O_PATH, wanted)).st_mode)) {
      at = next;
      continue;
    }
    if (--links_left < 0) refuse(wanted, "to which too many symlinks lead");
    const std::string link =
        os::read_link_at(open_parents(parents, at, O_PATH | O_DIRECTORY, wanted), name);
    if (link.starts_with('/')) at.clear();
    rest = join_path(link, rest);
  }
  return at;
}

std::uint64_t copy_data(const os::UniqueFd& source, const os::UniqueFd& target) {
  const auto buffer = std::make_unique<std::array<std::byte, copy_bytes>>();
  std::uint64_t offset = 0;
  for (;;) {
    const std::size_t count = os::read_some(source, std::span(*buffer));
    if (count == 0) return offset;
    os::write_at(target, std::span(*buffer).first(count), offset);
    offset += count;
  }
}

void copy_xattrs(const os::UniqueFd& source, const os::UniqueFd& target) {
  for (const std::string& name : os::list_xattrs(source)) {
    if (!keeps_xattr(name)) continue;
    os::set_xattr(target, name, os::get_xattr(source, name));
  }
}

}  // namespace

ParentsFile open_parents_file(const os::UniqueFd& parents, const EntryPath& path) {
  const EntryPath real{real_directory(parents, path), path.name};
  const auto open = [&](int flags) {
    os::UniqueFd file = open_parents(parents, real.string(), flags, path);
    if (!S_ISREG(status_of(file).st_mode))
      refuse(path, "which is no regular file in the layers below");
    return file;
  };
  // Looked at before it is opened: opening a fifo or a device does something by itself.
  open(O_PATH);
  return {real, open(O_RDONLY | O_NONBLOCK)};
}

std::uint64_t copy_file(const os::UniqueFd& source, const os::UniqueFd& target) {
  const struct stat status = status_of(source);
  const std::uint64_t size = copy_data(source, target);
  os::set_owner(target, status.st_uid, status.st_gid);
  // After the data and the owner, which take set-id bits and capabilities away.
  os::set_mode(target, status.st_mode & all_bits);
  copy_xattrs(source, target);
  os::set_modified(target, status.st_mtim);
  return size;
}

void describe_by_parents(const os::UniqueFd& parents, LayerTree& tree) {
  tree.for_each_implicit([&](const std::string& path, DirectoryState& state) {
    const auto below =
        os::try_open_beneath(parents, path.empty() ? "." : path, O_PATH | O_DIRECTORY);
    if (!below) return;
    const struct stat status = status_of(*below);
    state.mode = status.st_mode & all_bits;
    state.uid = status.st_uid;
    state.gid = status.st_gid;
    state.mtime = status.st_mtim;
  });
}

}  // namespace daiv::images::unpack
