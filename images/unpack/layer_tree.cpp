#include "images/unpack/layer_tree.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "images/unpack/entry_policy.hpp"
#include "images/unpack/unpack_error.hpp"
#include "os/directory_entry.hpp"
#include "os/error.hpp"

namespace daiv::images::unpack {

namespace {

constexpr int max_links = 40;  // path_resolution(7)
constexpr std::size_t max_open_directories = 128;
constexpr mode_t working_mode = 0700;

bool is_whiteout(const struct stat& status) {
  return S_ISCHR(status.st_mode) && status.st_rdev == 0;
}

std::pair<std::string, std::string> split_last(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

// The attribute that overlayfs takes as "opaque" when mounted with userxattr (overlayfs.rst).
constexpr const char* opaque_xattr = "user.overlay.opaque";

void apply_state(const os::UniqueFd& directory, const DirectoryState& state) {
  if (state.uid != 0 || state.gid != 0) os::set_owner(directory, state.uid, state.gid);
  for (const auto& [name, value] : state.xattrs) os::set_xattr(directory, name, value);
  if (state.opaque) os::set_xattr(directory, opaque_xattr, "y");
  // After the owner, which takes set-id bits away, and after an ACL, which changes the group's
  // bits.
  os::set_mode(directory, state.mode);
  if (state.mtime) os::set_modified(directory, *state.mtime);
}

}  // namespace

LayerTree::LayerTree(const os::UniqueFd& root) : root_(root) { states_[""].implicit = true; }

const os::UniqueFd* LayerTree::find_open(const std::string& path) {
  if (path.empty()) return &root_;
  const auto found = open_.find(path);
  return found == open_.end() ? nullptr : &found->second;
}

const os::UniqueFd& LayerTree::open_canonical(const std::string& path) {
  if (const auto* known = find_open(path)) return *known;
  auto opened = os::try_open_beneath(root_, path, O_PATH | O_DIRECTORY);
  if (!opened) throw os::Error(opened.error(), "openat2", printable(path));
  // Tars go directory by directory: forgetting all now and then costs less than keeping an order.
  if (open_.size() >= max_open_directories) open_.clear();
  return open_.emplace(path, std::move(*opened)).first->second;
}

std::optional<std::string> LayerTree::find_directory(const std::string& path) {
  std::string at;
  std::string rest = path;
  int links_left = max_links;
  while (!rest.empty()) {
    const std::size_t slash = rest.find('/');
    const std::string name = rest.substr(0, slash);
    rest = slash == std::string::npos ? "" : rest.substr(slash + 1);
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      at = split_last(at).first;
      continue;
    }
    std::string next = join_path(at, name);
    if (states_.contains(next)) {
      at = std::move(next);
      continue;
    }
    const os::UniqueFd& directory = open_canonical(at);
    const auto status = os::stat_at(directory, name);
    if (!status || !S_ISLNK(status->st_mode)) return std::nullopt;
    if (--links_left < 0)
      throw UnpackError(Status::corrupt, "too many symlinks lead to its directory");
    const std::string target = os::read_link_at(directory, name);
    if (target.starts_with('/')) at.clear();
    rest = join_path(target, rest);
  }
  return at;
}

LayerTree::Place LayerTree::enter(const std::string& path) {
  if (const auto* known = find_open(path)) return {path, *known};
  // Only known directories are trusted to be canonical; a symlink's path is never in the table.
  if (states_.contains(path)) return {path, open_canonical(path)};
  int links_left = max_links;
  std::string real = canonical(path, links_left);
  const os::UniqueFd& fd = open_canonical(real);
  return {std::move(real), fd};
}

std::string LayerTree::canonical(const std::string& path, int& links_left) {
  if (path.empty() || states_.contains(path)) return path;
  const auto [parent, name] = split_last(path);
  return step(canonical(parent, links_left), name, links_left);
}

std::string LayerTree::step(const std::string& parent, const std::string& name, int& links_left) {
  std::string path = join_path(parent, name);
  if (path.size() > max_path_bytes)
    throw UnpackError(Status::corrupt, "a symlink makes its name longer than 4095 bytes");
  if (states_.contains(path)) return path;
  const os::UniqueFd& directory = open_canonical(parent);
  const auto status = os::stat_at(directory, name);
  if (status && S_ISLNK(status->st_mode))
    return follow(parent, os::read_link_at(directory, name), links_left);
  if (status && !is_whiteout(*status)) {
    throw UnpackError(Status::corrupt, fmt::format("{} is not a directory", printable(path)));
  }
  make_directory({parent, directory}, name).implicit = true;
  return path;
}

std::string LayerTree::follow(const std::string& parent, const std::string& target,
                              int& links_left) {
  if (--links_left < 0)
    throw UnpackError(Status::corrupt, "too many symlinks lead to its directory");
  std::string at = target.starts_with('/') ? "" : parent;
  for (const std::string_view component : split_path(target)) {
    at = component == ".." ? split_last(at).first : step(at, std::string(component), links_left);
  }
  return at;
}

DirectoryState& LayerTree::make_directory(const Place& parent, const std::string& name) {
  const std::string path = join_path(parent.path, name);
  const auto known = states_.find(path);
  if (known != states_.end()) return known->second;
  DirectoryState state;
  if (os::make_directory_at(parent.fd, name, working_mode) == os::Made::exists) {
    const auto status = os::stat_at(parent.fd, name);
    state.opaque = status && is_whiteout(*status);
    os::remove_tree_at(parent.fd, name);
    os::make_directory_at(parent.fd, name, working_mode);
  }
  return states_[path] = std::move(state);
}

void LayerTree::remove(const Place& parent, const std::string& name) {
  const std::string path = join_path(parent.path, name);
  if (states_.erase(path) > 0) {
    const std::string below = path + "/";
    for (auto it = states_.lower_bound(below);
         it != states_.end() && it->first.starts_with(below);) {
      it = states_.erase(it);
    }
    std::erase_if(open_, [&](const auto& entry) {
      return entry.first == path || entry.first.starts_with(below);
    });
  }
  os::remove_tree_at(parent.fd, name);
}

DirectoryState* LayerTree::find(const std::string& path) {
  const auto found = states_.find(path);
  return found == states_.end() ? nullptr : &found->second;
}

os::UniqueFd LayerTree::open(const std::string& path) const {
  auto opened = os::try_open_beneath(root_, path.empty() ? "." : path, O_PATH | O_DIRECTORY);
  if (!opened) throw os::Error(opened.error(), "openat2", printable(path));
  return std::move(*opened);
}

void LayerTree::for_each_implicit(
    const std::function<void(const std::string& path, DirectoryState& state)>& action) {
  for (auto& [path, state] : states_) {
    if (state.implicit) action(path, state);
  }
}

void LayerTree::apply_states() {
  open_.clear();
  for (const auto& [path, state] : states_) {
    try {
      const auto directory =
          os::try_open_beneath(root_, path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
      if (!directory) throw os::Error(directory.error(), "openat2", printable(path));
      apply_state(*directory, state);
    } catch (const os::Error& error) {
      throw os::Error(error.error_number(), "set attributes of", printable(path));
    }
  }
}

}  // namespace daiv::images::unpack
