#include "os/disk_space.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "os/error.hpp"

namespace daiv::os {
namespace {

// Of a large filesystem one in a hundred is more than an image and some sessions need.
constexpr std::uint64_t enough_files = 65536;
constexpr std::uint64_t files_kept_fraction = 100;

std::uint64_t file_floor(const struct statvfs& status) {
  return std::min<std::uint64_t>(status.f_files / files_kept_fraction, enough_files);
}

}  // namespace

std::string find_disk_shortage(const std::string& path, std::uint64_t floor) {
  struct statvfs status{};
  check(::statvfs(path.c_str(), &status), "statvfs", path);
  if (floor == 0) return {};
  const std::uint64_t left = std::uint64_t{status.f_bavail} * status.f_frsize;
  if (left < floor)
    return fmt::format(
        "the host's disk has {} MiB left, below the floor of {} MiB "
        "(DAIV_SANDBOX_MIN_FREE_DISK_BYTES): no new sessions or images until there is more",
        left >> 20, floor >> 20);
  // f_files is 0 where a filesystem makes inodes as it needs them (statvfs(3); btrfs).
  if (status.f_favail < file_floor(status))
    return fmt::format(
        "the host's disk has room for {} more files (inodes) of {}, below the floor of {}: no new "
        "sessions or images until there are more",
        std::uint64_t{status.f_favail}, std::uint64_t{status.f_files}, file_floor(status));
  return {};
}

}  // namespace daiv::os
