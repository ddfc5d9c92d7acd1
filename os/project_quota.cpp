#include "os/project_quota.hpp"

#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "os/error.hpp"

namespace daiv::os {
namespace {

constexpr std::uint64_t block_bytes = 1024;  // of dqb_bhardlimit (linux/quota.h, QIF_DQBLKSIZE)

long call(const UniqueFd& directory, unsigned command, std::uint32_t id, void* argument) {
  return ::syscall(SYS_quotactl_fd, directory.get(), QCMD(command, PRJQUOTA), id, argument);
}

fsxattr read_attributes(const UniqueFd& directory) {
  fsxattr attributes{};
  check(::ioctl(directory.get(), FS_IOC_FSGETXATTR, &attributes), "ioctl", "FS_IOC_FSGETXATTR");
  return attributes;
}

}  // namespace

bool enforces_project_quota(const UniqueFd& directory) {
  fs_quota_statv state{};
  state.qs_version = FS_QSTATV_VERSION1;
  if (call(directory, Q_XGETQSTATV, 0, &state) == 0)
    return (state.qs_flags & FS_QUOTA_PDQ_ENFD) != 0;
  if (errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL || errno == ESRCH ||
      errno == ENOTBLK || errno == ENODEV)
    return false;
  throw_errno("quotactl_fd", "Q_XGETQSTATV");
}

std::uint32_t project_of(const UniqueFd& directory) {
  return read_attributes(directory).fsx_projid;
}

void set_project(const UniqueFd& directory, std::uint32_t project) {
  fsxattr attributes = read_attributes(directory);
  attributes.fsx_projid = project;
  attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  check(::ioctl(directory.get(), FS_IOC_FSSETXATTR, &attributes), "ioctl", "FS_IOC_FSSETXATTR");
}

void set_project_limit(const UniqueFd& directory, std::uint32_t project,
                       const ProjectLimit& limit) {
  if_dqblk quota{};
  quota.dqb_bhardlimit = (limit.bytes + block_bytes - 1) / block_bytes;
  quota.dqb_bsoftlimit = quota.dqb_bhardlimit;
  quota.dqb_ihardlimit = limit.files;
  quota.dqb_isoftlimit = quota.dqb_ihardlimit;
  quota.dqb_valid = QIF_BLIMITS | QIF_ILIMITS;
  check(static_cast<int>(call(directory, Q_SETQUOTA, project, &quota)), "quotactl_fd",
        "Q_SETQUOTA");
}

}  // namespace daiv::os
