#include "runtime/disk_limits.hpp"

#include <fcntl.h>

#include <algorithm>

#include "os/io.hpp"
#include "os/project_quota.hpp"

namespace daiv::runtime {
namespace {

constexpr std::string_view no_quota =
    "DAIV_SANDBOX_SESSION_DISK_BYTES needs a state directory on ext4 or xfs with project quota: "
    "mount it with prjquota (ext4: after tune2fs -O project,quota), or unset it";

// A file takes at least a block: empty ones must not use up the inodes of all others.
constexpr std::uint64_t bytes_per_file = 4096;
constexpr std::uint64_t least_files = 4096;  // even a small bound holds a checkout

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
  const std::uint64_t files = std::max(bytes / bytes_per_file, least_files);
  os::set_project_limit(directory, uid_base, {bytes, files});
  return {};
}

std::string check_disk_bound(const std::string& path) {
  return os::enforces_project_quota(os::open_file(path, O_RDONLY | O_DIRECTORY))
             ? "ok"
             : std::string(no_quota);
}

}  // namespace daiv::runtime
