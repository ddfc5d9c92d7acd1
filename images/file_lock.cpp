#include "images/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

constexpr std::chrono::milliseconds lock_poll{50};

bool is_still_named(const os::UniqueFd& file, const std::string& path) {
  struct stat held{};
  struct stat named{};
  os::check(::fstat(file.get(), &held), "fstat", path);
  if (::stat(path.c_str(), &named) != 0) return false;
  return held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace

std::optional<FileLock> FileLock::try_lock(const std::string& path, LockKind kind) {
  for (;;) {
    os::UniqueFd file = os::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    const int how = (kind == LockKind::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
    if (os::retry_eintr([&] { return ::flock(file.get(), how); }) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      os::throw_errno("flock", path);
    }
    // The holder before may have removed the file between our open and our lock.
    if (is_still_named(file, path)) return FileLock(std::move(file), path);
  }
}

std::optional<FileLock> FileLock::wait_lock(const std::string& path, LockKind kind,
                                            const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  for (;;) {
    if (auto lock = try_lock(path, kind)) return lock;
    // flock(2) can be waited for only by a thread that nothing can cancel: this asks again instead.
    std::unique_lock guard(mutex);
    stopped.wait_for(guard, stop, lock_poll, [&] { return stop.stop_requested(); });
    if (stop.stop_requested()) return std::nullopt;
  }
}

void FileLock::share() {
  os::check(os::retry_eintr([&] { return ::flock(file_.get(), LOCK_SH); }), "flock", path_);
}

void FileLock::remove_file() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) os::throw_errno("unlink", path_);
}

}  // namespace daiv::images
