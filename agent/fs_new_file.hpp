#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "agent/fs_root.hpp"
#include "os/unique_fd.hpp"

// Files that are written under a name of their own and appear under their final name whole.
namespace daiv::agent {

class NewFile {
public:
  // Creates an empty file with a random hidden name in `directory`, which must outlive this. errno
  // of openat(2).
  static OrErrno<NewFile> create(const os::UniqueFd& directory);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // removes the file unless it has got its final name

  [[nodiscard]] const os::UniqueFd& fd() const noexcept { return fd_; }

  // Writes all of `content`; 0 or errno.
  [[nodiscard]] int write(std::string_view content) const;

  // Gives the file its final name in the same directory; 0 or errno. EEXIST where `name` is taken
  // (renameat2(2), RENAME_NOREPLACE; link(2) where the file system lacks that).
  [[nodiscard]] int publish_new(const std::string& name);
  // The same, in the place of what is there (rename(2)).
  [[nodiscard]] int publish_over(const std::string& name);

private:
  NewFile(const os::UniqueFd& directory, std::string name, os::UniqueFd fd);

  const os::UniqueFd* directory_;  // borrowed
  std::string name_;               // empty once published
  os::UniqueFd fd_;
};

// Writes all of `content` to `fd` at its position; 0 or errno.
int write_all(const os::UniqueFd& fd, std::string_view content);

}  // namespace daiv::agent
