#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "os/unique_fd.hpp"

// Mounts by descriptor (open_tree(2), move_mount(2), mount_setattr(2), fsopen(2), pivot_root(2)).
// Oldest kernel: 5.12. Everything throws os::Error.
namespace daiv::os {

// A detached and private copy of the mount that `path` below `directory` lies on, with `path` as
// its root; without the mounts on it. An empty path means `directory` itself. Symlinks at the end
// of `path` are not followed. MOUNT_ATTR_* `attributes` are set on it, beside those it has.
UniqueFd clone_mount(const UniqueFd& directory, const std::string& path,
                     std::uint64_t attributes = 0);

// Maps the ids of a detached mount by `user_namespace`: an id on disk is what the namespace shows
// inside, what the mount shows is the id outside (mount_setattr(2), MOUNT_ATTR_IDMAP).
void set_id_map(const UniqueFd& mount, const UniqueFd& user_namespace);

// Sets MOUNT_ATTR_* flags on the mount that `fd` is the root of, and leaves the others.
void set_mount_attributes(const UniqueFd& fd, std::uint64_t attributes);

// Attaches a detached mount on the file or directory that `target` is open on.
void attach_mount(const UniqueFd& mount, const UniqueFd& target);

// A detached mount of a new filesystem instance (fsopen, fsconfig, fsmount). An option with an
// empty value is a flag.
using MountOption = std::pair<std::string, std::string>;
UniqueFd make_mount(const std::string& type, std::span<const MountOption> options,
                    std::uint64_t attributes);

// mount(2) with a type and an option string of at most one page less its terminating NUL; `target`
// may be relative.
void mount_filesystem(const std::string& type, const std::string& target, unsigned long flags,
                      const std::string& options);

// Stops propagation between all mounts of this namespace and any other (MS_REC | MS_PRIVATE on
// "/").
void make_mounts_private();

// Makes the mount that `root` is open on the root of this mount namespace, and unmounts the old one
// with all below it. The working directory is "/" afterwards.
void pivot_root_to(const UniqueFd& root);

// The number that tells one mount from another (statx(2), stx_mnt_id, Linux 5.8).
std::uint64_t mount_id(const UniqueFd& fd);

}  // namespace daiv::os
