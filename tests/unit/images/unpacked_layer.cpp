#include "unpacked_layer.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "os/directory_entry.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "unpack_process.hpp"

namespace daiv::test {

TempDir::TempDir() : path_("/tmp/daiv-images-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) os::throw_errno("mkdtemp", path_);
}

TempDir::~TempDir() {
  const os::UniqueFd parent(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  os::remove_tree_at(parent, path_.substr(5));
}

UnpackedLayer::UnpackedLayer(std::string_view bytes, images::unpack::Limits limits)
    : root_(dir_.path() + "/layer") {
  ::signal(SIGPIPE, SIG_IGN);
  if (::mkdir(root_.c_str(), 0700) != 0) os::throw_errno("mkdir", root_);
  const os::UniqueFd layer = os::open_file(root_, O_RDONLY | O_DIRECTORY);
  os::Pipe input = os::make_pipe();
  UnpackProcess process(input.read_end, layer, limits);
  input.read_end.reset();
  const std::jthread feeding([&] {
    try {
      os::write_full(input.write_end, bytes);
    } catch (const os::Error&) {
      // the unpacker has seen enough
    }
    input.write_end.reset();
  });
  result = process.wait();
}

std::optional<struct stat> UnpackedLayer::stat(const std::string& name) const {
  struct stat status{};
  if (::lstat((root_ + "/" + name).c_str(), &status) != 0) return std::nullopt;
  status.st_uid -= storage_uid_base;
  status.st_gid -= storage_uid_base;
  return status;
}

std::string UnpackedLayer::content(const std::string& name) const {
  return os::read_file(root_ + "/" + name, 1 << 24);
}

std::string UnpackedLayer::link(const std::string& name) const {
  const os::UniqueFd root = os::open_file(root_, O_RDONLY | O_DIRECTORY);
  return os::read_link_at(root, name);
}

std::string UnpackedLayer::xattr(const std::string& name, const char* attribute) const {
  std::array<char, 4096> value{};
  const auto size =
      ::lgetxattr((root_ + "/" + name).c_str(), attribute, value.data(), value.size());
  return size < 0 ? std::string() : std::string(value.data(), static_cast<std::size_t>(size));
}

bool UnpackedLayer::is_whiteout(const std::string& name) const {
  const auto status = stat(name);
  return status && S_ISCHR(status->st_mode) && status->st_rdev == 0;
}

}  // namespace daiv::test
