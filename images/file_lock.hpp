#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "os/unique_fd.hpp"

namespace daiv::images {

enum class LockKind { shared, exclusive };

// A lock between processes on a file (flock(2)), held until it is destroyed. The kernel lets go of
// it when the holder dies, however it dies.
class FileLock {
public:
  // Empty where another process (or another FileLock here) holds it. Throws os::Error.
  static std::optional<FileLock> try_lock(const std::string& path, LockKind kind);
  // Waits; empty where `stop` was requested meanwhile.
  static std::optional<FileLock> wait_lock(const std::string& path, LockKind kind,
                                           const std::stop_token& stop);

  // An exclusive lock becomes shared.
  void share();
  // Removes the file of an exclusive lock: only one who still waits for it sees the difference, and
  // opens it anew.
  void remove_file();

private:
  FileLock(os::UniqueFd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  os::UniqueFd file_;
  std::string path_;
};

}  // namespace daiv::images
