#include "runtime/rootfs.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <vector>

#include "os/attack_switches.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/mount.hpp"
#include "runtime/directory.hpp"
#include "runtime/sandbox_plan.hpp"

namespace daiv::runtime {
namespace {

using os::UniqueFd;

constexpr Owner sandbox_root{0, 0};
constexpr std::uint64_t inert = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
constexpr std::uint64_t inert_read_only = inert | MOUNT_ATTR_RDONLY;

const std::array<os::MountOption, 3> dev_options{
    {{"mode", "0755"}, {"size", "65536"}, {"nr_inodes", "256"}}};
const std::array<os::MountOption, 3> pts_options{
    {{"ptmxmode", "0666"}, {"mode", "0620"}, {"gid", "5"}}};
const std::array<os::MountOption, 2> shm_options{{{"mode", "1777"}, {"size", "67108864"}}};
// A processor takes some 1.5 KiB of cpuinfo.
const std::array<os::MountOption, 2> view_options{{{"mode", "0755"}, {"size", "4194304"}}};
const std::array<os::MountOption, 2> mask_options{{{"mode", "0555"}, {"nr_inodes", "1"}}};

UniqueFd open_host(const std::string& path) { return os::open_file(path, O_PATH | O_NOFOLLOW); }

// What `name` leads to over the image's links, out of its root too: what other runtimes did, for
// defences that are off.
UniqueFd follow(const UniqueFd& root, const std::string& name) {
  return UniqueFd(::openat(root.get(), name.c_str(), O_PATH | O_CLOEXEC));
}

// Where a mount or a directory of ours goes.
UniqueFd open_target(const UniqueFd& root, const std::string& name, os::Defence defence) {
  if (!os::defence_is_on(defence)) {
    UniqueFd found = follow(root, name);
    if (found) return found;
  }
  return open_own_directory(root, name, 0755, sandbox_root);
}

UniqueFd mount_new(const UniqueFd& root, const std::string& name, const std::string& type,
                   std::span<const os::MountOption> options, std::uint64_t attributes,
                   os::Defence defence = os::Defence::rooted_targets) {
  const UniqueFd target = open_target(root, name, defence);
  UniqueFd mount = os::make_mount(type, options, attributes);
  os::attach_mount(mount, target);
  return mount;
}

// The path leads to the very mount that was put there, and its filesystem is of the expected kind:
// else what is later read and written below it goes where the image says (CVE-2025-52881).
void expect_mounted(const UniqueFd& root, const std::string& name, const UniqueFd& mount,
                    long magic) {
  const UniqueFd seen = os::open_beneath(root, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  struct statfs status{};
  os::check(::fstatfs(seen.get(), &status), "fstatfs", name);
  if (static_cast<long>(status.f_type) != magic || os::mount_id(seen) != os::mount_id(mount))
    throw os::Error(EXDEV, "verify", name);
}

struct stat status_of(const UniqueFd& fd, const std::string& name) {
  struct stat status{};
  os::check(::fstat(fd.get(), &status), "fstat", name);
  return status;
}

void expect_device(const UniqueFd& fd, const DeviceNode& node) {
  const struct stat status = status_of(fd, std::string(node.name));
  if (!S_ISCHR(status.st_mode) || status.st_rdev != ::makedev(node.major, node.minor))
    throw os::Error(ENODEV, "verify device", node.name);
}

// The host's device: its /dev is still in view, we are before pivot_root, and nothing of the image
// is on its path.
UniqueFd open_device(const UniqueFd& root, const DeviceNode& node) {
  if (!os::defence_is_on(os::Defence::host_devices)) {
    UniqueFd found = follow(root, "dev/" + std::string(node.name));
    if (found) return found;
  }
  UniqueFd device = open_host("/dev/" + std::string(node.name));
  expect_device(device, node);
  return device;
}

// A path below a filesystem that we mounted this moment; empty where the kernel does not have it.
UniqueFd find_masked(const UniqueFd& filesystem, const Mask& mask) {
  const std::string path(mask.path);
  UniqueFd found = os::find_beneath(filesystem, path, O_PATH | O_NOFOLLOW);
  if (!found && errno != ENOENT && errno != ENOTDIR) os::throw_errno("openat2", path);
  return found;
}

UniqueFd make_cover(const UniqueFd& null, const UniqueFd& target, const Mask& mask) {
  if (mask.kind == MaskKind::read_only) return os::clone_mount(target, "", inert_read_only);
  if (S_ISDIR(status_of(target, std::string(mask.path)).st_mode))
    return os::make_mount("tmpfs", mask_options, inert_read_only);
  return os::clone_mount(null, "", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

// Runtimes that masked by path alone were led to mask, and to open, something else
// (CVE-2025-31133): the path must now lead to the very mount that was put there.
void expect_covered(const UniqueFd& filesystem, const UniqueFd& cover, const Mask& mask) {
  const UniqueFd seen = os::open_beneath(filesystem, std::string(mask.path), O_PATH | O_NOFOLLOW);
  if (os::mount_id(seen) != os::mount_id(cover)) throw os::Error(EXDEV, "verify mask", mask.path);
}

void apply_masks(const UniqueFd& root, const UniqueFd& filesystem, std::span<const Mask> masks) {
  const UniqueFd null = open_device(root, device_nodes().front());
  for (const Mask& mask : masks) {
    const UniqueFd target = find_masked(filesystem, mask);
    if (!target) continue;
    const UniqueFd cover = make_cover(null, target, mask);
    os::attach_mount(cover, target);
    expect_covered(filesystem, cover, mask);
  }
}

UniqueFd mount_proc(const UniqueFd& root) {
  UniqueFd proc = mount_new(root, "proc", "proc", {}, inert, os::Defence::verified_proc);
  if (os::defence_is_on(os::Defence::verified_proc))
    expect_mounted(root, "proc", proc, PROC_SUPER_MAGIC);
  apply_masks(root, proc, proc_masks());
  return proc;
}

UniqueFd mount_sys(const UniqueFd& root) {
  UniqueFd sys = mount_new(root, "sys", "sysfs", {}, inert_read_only);
  expect_mounted(root, "sys", sys, SYSFS_MAGIC);
  apply_masks(root, sys, sys_masks());
  // The session's own cgroups, to be looked at: programs read their memory and processor limits
  // there.
  const UniqueFd target = os::open_beneath(sys, "fs/cgroup", O_PATH | O_DIRECTORY);
  os::attach_mount(os::make_mount("cgroup2", {}, inert_read_only), target);
  return sys;
}

void bind_device(const UniqueFd& dev, const DeviceNode& node, const UniqueFd& device) {
  const UniqueFd place =
      os::open_at(dev, std::string(node.name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  os::attach_mount(device, place);
}

UniqueFd mount_dev(const UniqueFd& root) {
  std::vector<UniqueFd> devices;
  for (const DeviceNode& node : device_nodes())
    devices.push_back(os::clone_mount(open_device(root, node), ""));
  UniqueFd dev =
      mount_new(root, "dev", "tmpfs", dev_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  expect_mounted(root, "dev", dev, TMPFS_MAGIC);
  for (std::size_t index = 0; index < devices.size(); ++index)
    bind_device(dev, device_nodes()[index], devices[index]);
  mount_new(dev, "pts", "devpts", pts_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  mount_new(dev, "shm", "tmpfs", shm_options, inert);
  mount_new(dev, "mqueue", "mqueue", {}, inert);
  for (const Link& link : device_links()) {
    os::check(
        ::symlinkat(std::string(link.target).c_str(), dev.get(), std::string(link.name).c_str()),
        "symlinkat", link.name);
  }
  return dev;
}

// Covers files of the kernel's with files of ours. These lie in a filesystem that is attached for
// the time of binding only, since a detached one can't be bound from before Linux 6.15.
void cover_with_views(const UniqueFd& proc, const UniqueFd& sys, const UniqueFd& dev,
                      std::span<const ViewFile> views) {
  if (views.empty()) return;
  const UniqueFd scratch = os::make_mount("tmpfs", view_options, inert);
  os::attach_mount(scratch, os::open_at(dev, "mqueue", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  for (std::size_t index = 0; index < views.size(); ++index) {
    const ViewFile& view = views[index];
    const Mask place{view.path, MaskKind::read_only};
    const UniqueFd& filesystem = view.filesystem == "proc" ? proc : sys;
    const UniqueFd target = find_masked(filesystem, place);
    if (!target) continue;
    const std::string name = std::to_string(index);
    replace_file(scratch, name, view.content);
    const UniqueFd cover = os::clone_mount(scratch, name, inert_read_only);
    os::attach_mount(cover, target);
    expect_covered(filesystem, cover, place);
  }
  os::check(::fchdir(scratch.get()), "fchdir", "views");
  os::check(::umount2(".", MNT_DETACH), "umount2", "views");
}

// What the careless do, for the defence that is off: what the image's links lead to is shown in
// their place.
UniqueFd bind_followed(const UniqueFd& parent, const std::string& name) {
  const UniqueFd found = follow(parent, name);
  if (!found) return {};
  const UniqueFd mount = os::clone_mount(found, "");
  os::attach_mount(mount, open_own_directory(parent, name, 0755, sandbox_root));
  return open_own_directory(parent, name, 0755, sandbox_root);
}

UniqueFd open_owned(const UniqueFd& parent, const std::string& name, Owner owner) {
  if (!os::defence_is_on(os::Defence::rooted_targets))
    return open_target(parent, name, os::Defence::rooted_targets);
  if (!os::defence_is_on(os::Defence::rooted_sources)) {
    UniqueFd bound = bind_followed(parent, name);
    if (bound) return bound;
  }
  UniqueFd directory = open_own_directory(parent, name, 0755, owner);
  const struct stat status = status_of(directory, name);
  if (status.st_uid != owner.uid || status.st_gid != owner.gid) {
    // An O_PATH descriptor is no ground for fchown(2), but for fchownat(2) with AT_EMPTY_PATH.
    os::check(::fchownat(directory.get(), "", owner.uid, owner.gid, AT_EMPTY_PATH), "fchownat",
              name);
  }
  // An image may have made it read-only; it is the sandbox user's to write in.
  if ((status.st_mode & 0777) != 0755)
    os::check(::fchmod(os::open_at(directory, ".", O_RDONLY | O_DIRECTORY).get(), 0755), "fchmod",
              name);
  return directory;
}

}  // namespace

UniqueFd mount_overlay(const UniqueFd& layers, const UniqueFd& session,
                       const std::string& options) {
  // Overlayfs takes only mounts of the mounter's own namespace, so both must be attached somewhere;
  // /proc is a directory that every host has and anyone may look up. The host's root is left behind
  // with all of it.
  os::attach_mount(session, open_host("/proc"));
  os::attach_mount(layers, os::open_at(session, "lower", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  os::check(::fchdir(layers.get()), "fchdir", "layers");
  os::mount_filesystem("overlay", "../root", MS_NODEV, options);
  return os::open_at(session, "root", O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

void mount_system_directories(const UniqueFd& root, std::span<const ViewFile> views) {
  const UniqueFd proc = mount_proc(root);
  const UniqueFd sys = mount_sys(root);
  const UniqueFd dev = mount_dev(root);
  cover_with_views(proc, sys, dev, views);
}

void make_session_files(const UniqueFd& root, const CreateSandbox& request) {
  const UniqueFd etc = open_image_directory(root, "etc", 0755, sandbox_root);
  for (const EtcFile& file : plan_etc_files(request.hostname, request.egress))
    replace_file(etc, std::string(file.name), file.content);
  open_image_directory(root, "tmp", 01777, sandbox_root);
  const Owner user{request.run_uid, request.run_gid};
  const UniqueFd workspace = open_owned(root, "workspace", user);
  for (const char* name : {"repo", "skills", "tmp"}) open_owned(workspace, name, user);
  const UniqueFd home = open_image_directory(root, "home", 0755, sandbox_root);
  open_owned(home, "daiv-sandbox", user);
}

}  // namespace daiv::runtime
