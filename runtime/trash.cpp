#include "runtime/trash.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/error.hpp"
#include "os/io.hpp"
#include "runtime/directory.hpp"

namespace daiv::runtime {
namespace {

// Differs from every name of this process and, by the pid, from those of others that run now.
std::string free_name() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return fmt::format("{}-{}.{:09}", ::getpid(), now.tv_sec, now.tv_nsec);
}

}  // namespace

os::UniqueFd open_or_make(const std::string& path, mode_t mode) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (::mkdir(path.substr(0, slash).c_str(), 0755) != 0 && errno != EEXIST)
      os::throw_errno("mkdir", path);
  }
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) os::throw_errno("mkdir", path);
  os::UniqueFd directory = os::open_file(path, O_RDONLY | O_DIRECTORY);
  os::check(::fchmod(directory.get(), mode), "fchmod", path);
  return directory;
}

void move_to_trash(const os::UniqueFd& directory, const std::string& name,
                   const os::UniqueFd& trash) {
  for (;;) {
    if (::renameat2(directory.get(), name.c_str(), trash.get(), free_name().c_str(),
                    RENAME_NOREPLACE) == 0)
      return;
    if (errno == ENOENT) return;
    if (errno != EEXIST) os::throw_errno("renameat2", name);
  }
}

void empty_trash(const os::UniqueFd& trash) {
  for (const std::string& name : list_entries(trash)) {
    try {
      remove_tree(trash, name);
    } catch (const os::Error&) {
      // A full journal or an I/O error: it is tried again with the next trash, and when the broker
      // starts.
    }
  }
}

}  // namespace daiv::runtime
