#pragma once

#include <cstdint>

#include "os/unique_fd.hpp"

// Project quota of ext4 and xfs: a bound on what lies below some directories, whoever owns it.
namespace daiv::os {

// Whether the filesystem of `directory` counts what a project has and enforces its limit
// (quotactl(2), Q_XGETQSTATV; the mount option is prjquota). Throws Error{errno, "quotactl_fd", …}
// for everything but a filesystem without quota.
bool enforces_project_quota(const UniqueFd& directory);

// The project that `directory` belongs to; 0: none (ioctl_xfs_fsgetxattr(2)).
std::uint32_t project_of(const UniqueFd& directory);
// Puts an empty directory, and all that is made below it, into `project`.
void set_project(const UniqueFd& directory, std::uint32_t project);

struct ProjectLimit {
  std::uint64_t bytes;  // rounded up to a KiB
  std::uint64_t files;  // inodes: files, directories, links
};

// Bounds what `project` has on the filesystem of `directory` (quotactl(2), Q_SETQUOTA; quotactl_fd
// is Linux 5.14). What passes it is EDQUOT.
void set_project_limit(const UniqueFd& directory, std::uint32_t project, const ProjectLimit& limit);

}  // namespace daiv::os
