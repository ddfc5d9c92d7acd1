#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "os/unique_fd.hpp"

// Files below directory descriptors, whole reads and writes (open(2), openat2(2), read(2),
// write(2)). Every descriptor that is made here is close-on-exec. Everything throws os::Error
// unless said otherwise.
namespace daiv::os {

// open(2) with O_CLOEXEC; retries EINTR.
UniqueFd open_file(const std::string& path, int flags, mode_t mode = 0);

// openat(2) with O_CLOEXEC; retries EINTR.
UniqueFd open_at(const UniqueFd& directory, const std::string& path, int flags, mode_t mode = 0);

// Opens `path` below `root`; symlinks and ".." can't leave it, an absolute link starts again at
// `root`, magic links are refused (openat2(2), RESOLVE_IN_ROOT and RESOLVE_NO_MAGICLINKS,
// Linux 5.6). Retries EINTR, and EAGAIN (a rename raced with "..") 8 times.
UniqueFd open_in_root(const UniqueFd& root, const std::string& path, int flags, mode_t mode = 0);

// Opens `path` below `root` where no component may be a symlink and nothing may leave `root`
// (openat2(2), RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS). Same retries.
UniqueFd open_beneath(const UniqueFd& root, const std::string& path, int flags, mode_t mode = 0);

// The same two where it is usual that nothing is found: empty then, with errno. An exception would
// cost more than the call, in a new process by far.
UniqueFd find_in_root(const UniqueFd& root, const std::string& path, int flags);
UniqueFd find_beneath(const UniqueFd& root, const std::string& path, int flags);

// Reads until `buffer` is full or the file ends; returns how much was read.
std::size_t read_full(const UniqueFd& fd, std::span<std::byte> buffer);

// One read(2); 0 at the end of the file. Retries EINTR.
std::size_t read_some(const UniqueFd& fd, std::span<std::byte> buffer);

// Reads the rest of the file. Throws os::Error{EFBIG, ...} where it is longer than `max_bytes`.
std::string read_all(const UniqueFd& fd, std::size_t max_bytes);

// open_file and read_all.
std::string read_file(const std::string& path, std::size_t max_bytes);

// Writes all of `data`; loops on short writes.
void write_full(const UniqueFd& fd, std::string_view data);

// Writes `data` in one write(2) to an existing file such as a cgroup's or /proc's: these take a
// value whole.
void write_value(const UniqueFd& directory, const std::string& path, std::string_view data);

// A pipe, both ends close-on-exec (pipe2(2)); `flags` may add O_NONBLOCK.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};
Pipe make_pipe(int flags = 0);

// A copy of `fd` with close-on-exec (F_DUPFD_CLOEXEC).
UniqueFd duplicate(const UniqueFd& fd);

// Sets or clears FD_CLOEXEC.
enum class Inherit { no, yes };
void set_inherit(const UniqueFd& fd, Inherit inherit);

}  // namespace daiv::os
