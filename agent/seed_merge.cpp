#include "agent/seed_merge.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "agent/image_files.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

bool is_directory(const os::UniqueFd& root, const std::string& path) {
  struct stat status{};
  return ::fstatat(root.get(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(status.st_mode);
}

bool exists(const os::UniqueFd& root, const std::string& path) {
  struct stat status{};
  return ::fstatat(root.get(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

SeedMerge::~SeedMerge() {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
    ::renameat2(step->target->get(), step->path.c_str(), step->staged->get(), step->path.c_str(),
                step->flags);
}

void SeedMerge::move(const os::UniqueFd& staged, const os::UniqueFd& target) {
  move_members(staged, target, {});
}

void SeedMerge::move_members(const os::UniqueFd& staged, const os::UniqueFd& target,
                             const std::string& prefix) {
  for (const auto& name : list_names(staged, prefix.empty() ? "." : prefix))
    move_member(staged, target, prefix.empty() ? name : prefix + "/" + name);
}

void SeedMerge::move_member(const os::UniqueFd& staged, const os::UniqueFd& target,
                            const std::string& path) {
  const bool occupied = exists(target, path);
  if (occupied && is_directory(target, path) && is_directory(staged, path))
    return move_members(staged, target, path);
  // What was there changes places with what comes: it is kept until all has succeeded.
  const unsigned flags = occupied ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  os::check(::renameat2(staged.get(), path.c_str(), target.get(), path.c_str(), flags), "renameat2",
            path);
  steps_.push_back({&staged, &target, path, flags});
}

void remove_tree(const os::UniqueFd& root, const std::string& path) noexcept {
  try {
    if (::unlinkat(root.get(), path.c_str(), 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
    // One that was replaced may forbid its owner to enter it.
    [[maybe_unused]] const int ignored = ::fchmodat(root.get(), path.c_str(), 0700, 0);
    for (const auto& name : list_names(root, path)) remove_tree(root, path + "/" + name);
    ::unlinkat(root.get(), path.c_str(), AT_REMOVEDIR);
  } catch (const os::Error&) {  // the directory stays, and so do those above it
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace daiv::agent
