#include "os/io.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <array>
#include <cstdint>

#include "os/error.hpp"

namespace daiv::os {
namespace {

constexpr int max_rename_races = 8;

constexpr std::uint64_t in_root = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
constexpr std::uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

// Empty, with errno, where it fails.
UniqueFd find_resolved(const UniqueFd& root, const std::string& path, int flags, mode_t mode,
                       std::uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.mode = mode;
  how.resolve = resolve;
  for (int attempt = 0;; ++attempt) {
    const long fd = retry_eintr(
        [&] { return ::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how); });
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno != EAGAIN || attempt == max_rename_races) return {};
  }
}

UniqueFd open_resolved(const UniqueFd& root, const std::string& path, int flags, mode_t mode,
                       std::uint64_t resolve) {
  UniqueFd fd = find_resolved(root, path, flags, mode, resolve);
  if (!fd) throw_errno("openat2", path);
  return fd;
}

}  // namespace

UniqueFd open_file(const std::string& path, int flags, mode_t mode) {
  return UniqueFd(check(retry_eintr([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }),
                        "open", path));
}

UniqueFd open_at(const UniqueFd& directory, const std::string& path, int flags, mode_t mode) {
  return UniqueFd(check(
      retry_eintr([&] { return ::openat(directory.get(), path.c_str(), flags | O_CLOEXEC, mode); }),
      "openat", path));
}

UniqueFd open_in_root(const UniqueFd& root, const std::string& path, int flags, mode_t mode) {
  return open_resolved(root, path, flags, mode, in_root);
}

UniqueFd open_beneath(const UniqueFd& root, const std::string& path, int flags, mode_t mode) {
  return open_resolved(root, path, flags, mode, beneath);
}

UniqueFd find_in_root(const UniqueFd& root, const std::string& path, int flags) {
  return find_resolved(root, path, flags, 0, in_root);
}

UniqueFd find_beneath(const UniqueFd& root, const std::string& path, int flags) {
  return find_resolved(root, path, flags, 0, beneath);
}

std::size_t read_some(const UniqueFd& fd, std::span<std::byte> buffer) {
  return static_cast<std::size_t>(
      check(retry_eintr([&] { return ::read(fd.get(), buffer.data(), buffer.size()); }), "read",
            "descriptor"));
}

std::size_t read_full(const UniqueFd& fd, std::span<std::byte> buffer) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const std::size_t count = read_some(fd, buffer.subspan(done));
    if (count == 0) break;
    done += count;
  }
  return done;
}

std::string read_all(const UniqueFd& fd, std::size_t max_bytes) {
  std::string content;
  std::array<std::byte, 16384> chunk;  // not filled: untouched pages cost nothing
  while (const std::size_t count = read_some(fd, chunk)) {
    if (content.size() + count > max_bytes) throw Error(EFBIG, "read", "descriptor");
    content.append(reinterpret_cast<const char*>(chunk.data()), count);
  }
  return content;
}

std::string read_file(const std::string& path, std::size_t max_bytes) {
  return read_all(open_file(path, O_RDONLY), max_bytes);
}

void write_full(const UniqueFd& fd, std::string_view data) {
  while (!data.empty()) {
    const auto count =
        check(retry_eintr([&] { return ::write(fd.get(), data.data(), data.size()); }), "write",
              "descriptor");
    data.remove_prefix(static_cast<std::size_t>(count));
  }
}

void write_value(const UniqueFd& directory, const std::string& path, std::string_view data) {
  const UniqueFd file = open_at(directory, path, O_WRONLY);
  check(retry_eintr([&] { return ::write(file.get(), data.data(), data.size()); }), "write", path);
}

Pipe make_pipe(int flags) {
  std::array<int, 2> fds{};
  check(::pipe2(fds.data(), flags | O_CLOEXEC), "pipe2", "pipe");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

UniqueFd duplicate(const UniqueFd& fd) {
  return UniqueFd(
      check(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3), "fcntl F_DUPFD_CLOEXEC", "descriptor"));
}

void set_inherit(const UniqueFd& fd, Inherit inherit) {
  check(::fcntl(fd.get(), F_SETFD, inherit == Inherit::yes ? 0 : FD_CLOEXEC), "fcntl F_SETFD",
        "descriptor");
}

}  // namespace daiv::os
