#include "cli/host_directories.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "cli/control_protocol.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"

namespace daiv::cli {
namespace {

constexpr mode_t passable = 0711;  // the front and, for its socket, nobody else must get through
constexpr mode_t own = 0700;
constexpr mode_t of_group = 0660;
constexpr int control_backlog = 16;
constexpr int api_backlog = 1024;

void make_directory(const std::string& path, mode_t mode, uid_t uid, gid_t gid) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) os::throw_errno("mkdir", path);
  const os::UniqueFd directory = os::open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  os::check(::fchown(directory.get(), uid, gid), "fchown", path);
  os::check(::fchmod(directory.get(), mode), "fchmod", path);
}

// The front's to lock, in a directory that only root may add to.
constexpr const char* lock_name = "/lock";

void make_lock(const std::string& directory, const User& front) {
  const std::string path = directory + lock_name;
  const os::UniqueFd lock = os::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  os::check(::fchown(lock.get(), front.uid, front.gid), "fchown", path);
}

os::UniqueFd lock_directory(const std::string& directory, const char* setting) {
  os::UniqueFd lock = os::open_file(directory + lock_name, O_RDWR | O_NOFOLLOW);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) os::throw_errno("flock", directory);
  throw std::runtime_error(fmt::format(
      "another daiv-sandbox serves {} already ({} must be its own)", directory, setting));
}

// Parents are made as any administrator would.
void make_root_directory(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  make_directory(path, passable, 0, 0);
}

// Removes the socket that an earlier run left at `path`, if it is that. Connecting alone does not
// tell: a file that is no socket refuses as well (connect(2)).
void remove_stale_socket(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) os::throw_errno("lstat", path);
    return;
  }
  if (!S_ISSOCK(status.st_mode))
    throw std::runtime_error(fmt::format("DAIV_SANDBOX_UNIX_SOCKET: {} is no socket", path));
  try {
    os::try_connect_unix(path, os::SocketKind::stream);
  } catch (const os::Error& error) {
    if (error.error_number() != ECONNREFUSED) throw;
    os::check(::unlink(path.c_str()), "unlink", path);
    return;
  }
  throw std::runtime_error(
      fmt::format("DAIV_SANDBOX_UNIX_SOCKET: another process listens on {}", path));
}

}  // namespace

void make_directories(const Settings& settings, const User& front) {
  make_root_directory(settings.state_dir);
  make_root_directory(settings.runtime_dir);
  for (const char* name : {"/egress", "/front"})
    make_directory(settings.runtime_dir + name, own, front.uid, front.gid);
  const std::string base = settings.state_dir + "/front";
  make_directory(base, own, front.uid, front.gid);
  for (const char* name : {"/tmp", "/blobs"})
    make_directory(base + name, own, front.uid, front.gid);
  make_lock(settings.state_dir, front);
  make_lock(settings.runtime_dir, front);
}

DirectoryLocks lock_directories(const Settings& settings) {
  return {lock_directory(settings.state_dir, "DAIV_SANDBOX_STATE_DIR"),
          lock_directory(settings.runtime_dir, "DAIV_SANDBOX_RUNTIME_DIR")};
}

os::UniqueFd listen_for_control(const Settings& settings, const User& front) {
  const std::string path = control_socket_path(settings.runtime_dir);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) os::throw_errno("unlink", path);
  os::UniqueFd listener =
      os::listen_unix(path, os::SocketKind::seqpacket, control_backlog);  // umask 077: 0700
  os::check(::chown(path.c_str(), front.uid, front.gid), "chown", path);
  return listener;
}

os::UniqueFd listen_for_api(const Settings& settings, const User& front) {
  const std::string& path = settings.unix_socket;
  if (path.empty()) return {};
  remove_stale_socket(path);
  os::UniqueFd listener = os::listen_unix(path, os::SocketKind::stream, api_backlog);
  os::check(::lchown(path.c_str(), front.uid, front.gid), "lchown", path);
  os::check(::chmod(path.c_str(), of_group), "chmod", path);
  return listener;
}

}  // namespace daiv::cli
