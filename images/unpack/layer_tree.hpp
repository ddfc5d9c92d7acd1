#pragma once

#include <sys/types.h>

#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::images::unpack {

// What a directory of the layer shall be like in the end. Until then each is root's, 0700 and
// without set-id, so that nothing made below takes over its group, its sticky bit or its default
// ACL.
struct DirectoryState {
  mode_t mode = 0755;  // what a parent without an entry of its own gets
  uid_t uid = 0;
  gid_t gid = 0;
  std::optional<timespec> mtime;
  bool opaque = false;
  bool implicit = false;  // made for what lies in it: the layer has no entry of its own for it
  std::vector<std::pair<std::string, std::string>> xattrs;
};

// The directories of a layer that is being written, by their place in it. Nothing is ever opened
// through a symlink (openat2(2), RESOLVE_NO_SYMLINKS): where an entry's parent is a symlink of the
// same layer, the link is read and its target walked here, with the layer's root as the end of
// every "..", as Docker does it in its chroot. One thread. Everything throws os::Error, or
// UnpackError{corrupt} where a parent cannot be a directory.
class LayerTree {
public:
  // Keeps a reference to `root`, a directory that nobody else changes.
  explicit LayerTree(const os::UniqueFd& root);

  // A directory with its place as it really is. `fd` is valid until the next call.
  struct Place {
    std::string path;
    const os::UniqueFd& fd;
  };

  // The directory at `path`, made with its parents where missing.
  Place enter(const std::string& path);

  // The place of the directory at `path` where it is there; makes nothing.
  std::optional<std::string> find_directory(const std::string& path);

  // Makes the directory `name` in `parent` or finds it there. What else has the name is removed; in
  // the place of a whiteout the directory is opaque, since whatever the layers below have of that
  // name is hidden.
  DirectoryState& make_directory(const Place& parent, const std::string& name);

  // Removes what is at `name` in `parent`, with all below it.
  void remove(const Place& parent, const std::string& name);

  // The state of the directory at `path`, a place as enter() gives it; null where there is none.
  DirectoryState* find(const std::string& path);

  // The directory of a place as enter() gives it, opened for the caller.
  [[nodiscard]] os::UniqueFd open(const std::string& path) const;

  // The directories that have no entry of their own; for one that the layers below have too, the
  // caller may say what it is like there.
  void for_each_implicit(
      const std::function<void(const std::string& path, DirectoryState& state)>& action);

  // Gives every directory its owner, mode, attributes and time: call it once, when all is written.
  void apply_states();

private:
  std::string canonical(const std::string& path, int& links_left);
  std::string step(const std::string& parent, const std::string& name, int& links_left);
  std::string follow(const std::string& parent, const std::string& target, int& links_left);
  const os::UniqueFd* find_open(const std::string& path);
  const os::UniqueFd& open_canonical(const std::string& path);

  const os::UniqueFd& root_;
  std::unordered_map<std::string, os::UniqueFd> open_;  // by canonical path
  std::map<std::string, DirectoryState> states_;        // by canonical path
};

}  // namespace daiv::images::unpack
