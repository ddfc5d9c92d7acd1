#include "os/mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "os/error.hpp"

namespace daiv::os {

UniqueFd clone_mount(const UniqueFd& directory, const std::string& path,
                     std::uint64_t set_attributes) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
                         (path.empty() ? AT_EMPTY_PATH : 0U);
  UniqueFd mount(check(::open_tree(directory.get(), path.c_str(), flags), "open_tree", path));
  // A copy of a shared mount is its peer (mount_namespaces(7)): what is mounted below it, in
  // whichever namespace, would be mounted on the host as well, and pivot_root(2) refuses it.
  mount_attr attributes{};
  attributes.attr_set = set_attributes;
  attributes.propagation = MS_PRIVATE;
  check(::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes),
        "mount_setattr", "private copy");
  return mount;
}

void set_id_map(const UniqueFd& mount, const UniqueFd& user_namespace) {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<std::uint64_t>(user_namespace.get());
  check(::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes),
        "mount_setattr", "id map");
}

void set_mount_attributes(const UniqueFd& fd, std::uint64_t attributes) {
  mount_attr change{};
  change.attr_set = attributes;
  check(::mount_setattr(fd.get(), "", AT_EMPTY_PATH, &change, sizeof change), "mount_setattr",
        "flags");
}

void attach_mount(const UniqueFd& mount, const UniqueFd& target) {
  check(::move_mount(mount.get(), "", target.get(), "",
                     MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH),
        "move_mount", "detached mount");
}

UniqueFd make_mount(const std::string& type, std::span<const MountOption> options,
                    std::uint64_t attributes) {
  const UniqueFd context(check(::fsopen(type.c_str(), FSOPEN_CLOEXEC), "fsopen", type));
  for (const auto& [key, value] : options) {
    const bool flag = value.empty();
    check(::fsconfig(context.get(), flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING, key.c_str(),
                     flag ? nullptr : value.c_str(), 0),
          "fsconfig", type + " " + key);
  }
  check(::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), "fsconfig create",
        type);
  return UniqueFd(
      check(::fsmount(context.get(), FSMOUNT_CLOEXEC, static_cast<unsigned>(attributes)), "fsmount",
            type));
}

void mount_filesystem(const std::string& type, const std::string& target, unsigned long flags,
                      const std::string& options) {
  check(::mount(type.c_str(), target.c_str(), type.c_str(), flags, options.c_str()), "mount", type);
}

void make_mounts_private() {
  check(::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "mount", "private propagation");
}

void pivot_root_to(const UniqueFd& root) {
  check(::fchdir(root.get()), "fchdir", "new root");
  // Old and new root at the same place need no directory for the old one inside the image
  // (pivot_root(2), NOTES).
  check(::syscall(SYS_pivot_root, ".", "."), "pivot_root", ".");
  check(::umount2(".", MNT_DETACH), "umount2", "old root");
  check(::chdir("/"), "chdir", "/");
}

std::uint64_t mount_id(const UniqueFd& fd) {
  struct statx status{};
  check(::statx(fd.get(), "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_MNT_ID, &status), "statx",
        "mount id");
  return status.stx_mnt_id;
}

}  // namespace daiv::os
