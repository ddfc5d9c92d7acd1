#include "runtime/disk_limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/project_quota.hpp"

namespace daiv::runtime {
namespace {

constexpr std::string_view no_quota =
    "DAIV_SANDBOX_SESSION_DISK_BYTES needs a state directory on ext4 or xfs with project quota: "
    "mount it with prjquota (ext4: after tune2fs -O project,quota), or unset it";

}  // namespace

std::expected<void, Failed> bound_writable_layer(const os::UniqueFd& directory,
                                                 std::uint32_t uid_base, std::uint64_t bytes,
                                                 WritableLayer layer) {
  if (!os::enforces_project_quota(directory))
    return std::unexpected(Failed{Failure::unsupported, std::string(no_quota)});
  for (const char* name : {"upper", "work"}) {
    const os::UniqueFd part = os::open_at(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (layer == WritableLayer::fresh) os::set_project(part, uid_base);
  }
  os::set_project_limit(directory, uid_base, bytes);
  return {};
}

std::string find_shortage(const std::string& path, std::uint64_t floor) {
  struct statvfs status{};
  os::check(::statvfs(path.c_str(), &status), "statvfs", path);
  const std::uint64_t left = status.f_bavail * status.f_frsize;
  if (left >= floor) return {};
  return fmt::format(
      "the host's disk has {} MiB left, below the floor of {} MiB "
      "(DAIV_SANDBOX_MIN_FREE_DISK_BYTES): no new sessions or images until there is more",
      left >> 20, floor >> 20);
}

std::string check_disk_bound(const std::string& path) {
  return os::enforces_project_quota(os::open_file(path, O_RDONLY | O_DIRECTORY))
             ? "ok"
             : std::string(no_quota);
}

}  // namespace daiv::runtime
