#include "fake_layer_backend.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>

#include "os/directory_entry.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/mount.hpp"
#include "unpack_process.hpp"

namespace daiv::test {

namespace {

using images::ImageError;
using images::ImageFailure;

ImageFailure failure_of(images::unpack::Status status) {
  switch (status) {
    case images::unpack::Status::corrupt:
    case images::unpack::Status::too_large:
      return ImageFailure::invalid_image;
    case images::unpack::Status::no_space:
      return ImageFailure::no_space;
    case images::unpack::Status::ok:
    case images::unpack::Status::needs_parents:
    case images::unpack::Status::internal:
      return ImageFailure::internal;
  }
  return ImageFailure::internal;
}

os::UniqueFd open_directory(const std::string& path) {
  return os::open_file(path, O_RDONLY | O_DIRECTORY);
}

}  // namespace

// The broker mounts an overlay where there are several; here the one on top has to do.
os::UniqueFd FakeLayerBackend::open_parents(const std::vector<std::string>& parents) const {
  if (parents.empty()) return {};
  os::UniqueFd tree = os::clone_mount(open_directory(path(parents.back())), "");
  os::set_mount_attributes(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV);
  return tree;
}

FakeLayerBackend::FakeLayerBackend(std::string dir) : dir_(std::move(dir)) {
  if (::mkdir(dir_.c_str(), 0755) != 0) os::throw_errno("mkdir", dir_);
}

images::LayerBackend::Unpacked FakeLayerBackend::unpack(const std::string& name,
                                                        const std::string& expected_diff_id,
                                                        const os::UniqueFd& input,
                                                        const Parents& parents) {
  ++unpacks_;
  const std::string temporary = ".tmp-" + name;
  if (::mkdir(path(temporary).c_str(), 0700) != 0) os::throw_errno("mkdir", temporary);
  images::unpack::Result result;
  {
    const os::UniqueFd layer = open_directory(path(temporary));
    const os::UniqueFd below = open_parents(parents.value_or(std::vector<std::string>{}));
    UnpackProcess process(input, layer, {}, UnpackProcess::Namespaces::own, below,
                          !parents || !parents->empty());
    if (kill_next_.exchange(false)) process.kill();
    result = process.wait();
  }
  if (result.status == images::unpack::Status::ok && result.diff_id == expected_diff_id) {
    if (::rename(path(temporary).c_str(), path(name).c_str()) != 0) os::throw_errno("rename", name);
    return {Unpacked::State::whole, result.diff_id, result.unpacked_bytes, result.entries,
            result.hides_below};
  }
  os::remove_tree_at(open_directory(dir_), temporary);
  if (result.status == images::unpack::Status::needs_parents && (!parents || parents->empty()))
    return {Unpacked::State::needs_parents, result.diff_id};
  if (result.status == images::unpack::Status::ok)
    throw ImageError(ImageFailure::invalid_image, "wrong diffID");
  throw ImageError(failure_of(result.status), result.message);
}

void FakeLayerBackend::remove(const std::vector<std::string>& names) {
  for (const auto& name : names) os::remove_tree_at(open_directory(dir_), name);
}

std::vector<std::string> FakeLayerBackend::list() {
  return os::list_directory(open_directory(dir_));
}

std::string FakeLayerBackend::credential(const std::string& /*helper*/,
                                         const std::string& /*server*/) {
  throw ImageError(ImageFailure::denied, "no helpers here");
}

}  // namespace daiv::test
