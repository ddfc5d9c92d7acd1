#include "runtime/parent_layers.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/mount.hpp"
#include "os/namespace.hpp"

namespace daiv::runtime {
namespace {

constexpr std::uint64_t inert =
    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

// Directories that every host has and that nothing here needs: overlayfs takes layers only from
// mounts of this namespace, and mount(2) needs a place.
constexpr const char* layers_place = "/dev";
constexpr const char* overlay_place = "/sys";

// Keeps the mounts from outliving what needs them: the paths below are the host's again.
class PlacedMount {
public:
  explicit PlacedMount(const char* path) : path_(path) {}
  PlacedMount(const PlacedMount&) = delete;
  PlacedMount& operator=(const PlacedMount&) = delete;
  ~PlacedMount() { ::umount2(path_, MNT_DETACH); }

private:
  const char* path_;
};

os::UniqueFd mount_overlay(const os::UniqueFd& layers, const std::vector<std::string>& names) {
  const os::UniqueFd copy = os::clone_mount(layers, "");
  os::unshare(CLONE_NEWNS);
  os::make_mounts_private();
  os::attach_mount(copy, os::open_file(layers_place, O_PATH | O_DIRECTORY));
  const PlacedMount placed_layers(layers_place);
  os::check(::fchdir(copy.get()), "fchdir", "layers");
  os::mount_filesystem("overlay", overlay_place, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                       plan_parents_options(names));
  const PlacedMount placed_overlay(overlay_place);
  os::UniqueFd overlay = os::clone_mount(os::open_file(overlay_place, O_PATH | O_DIRECTORY), "");
  os::check(::chdir("/"), "chdir", "/");
  return overlay;
}

}  // namespace

std::string plan_parents_options(const std::vector<std::string>& names) {
  std::string options = "userxattr,lowerdir=";
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (name != names.rbegin()) options += ':';
    options += *name;
  }
  return options;
}

os::UniqueFd mount_parents(const os::UniqueFd& layers, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  // overlayfs wants two layers where nothing is written; one is its own tree but for whiteouts,
  // which are devices and so no file that could be linked to.
  os::UniqueFd tree =
      names.size() == 1 ? os::clone_mount(layers, names.front()) : mount_overlay(layers, names);
  os::set_mount_attributes(tree, inert);
  return tree;
}

}  // namespace daiv::runtime
