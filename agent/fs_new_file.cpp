#include "agent/fs_new_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "os/error.hpp"

namespace daiv::agent {
namespace {

constexpr int max_name_attempts = 16;

std::string random_name() {
  std::uint64_t value = 0;
  os::check(::getrandom(&value, sizeof value, 0), "getrandom", "temporary name");
  constexpr std::string_view digits = "0123456789abcdef";
  std::string name = ".daiv-";
  for (int i = 0; i < 16; ++i, value >>= 4U) name += digits[value & 0xFU];
  return name;
}

}  // namespace

OrErrno<NewFile> NewFile::create(const os::UniqueFd& directory) {
  for (int attempt = 0;; ++attempt) {
    std::string name = random_name();
    const int fd = os::retry_eintr([&] {
      return ::openat(directory.get(), name.c_str(),
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    });
    if (fd >= 0) return NewFile(directory, std::move(name), os::UniqueFd(fd));
    if (errno != EEXIST || attempt == max_name_attempts) return std::unexpected(errno);
  }
}

NewFile::NewFile(const os::UniqueFd& directory, std::string name, os::UniqueFd fd)
    : directory_(&directory), name_(std::move(name)), fd_(std::move(fd)) {}

NewFile::NewFile(NewFile&& other) noexcept
    : directory_(other.directory_),
      name_(std::exchange(other.name_, {})),
      fd_(std::move(other.fd_)) {}

NewFile::~NewFile() {
  if (!name_.empty()) ::unlinkat(directory_->get(), name_.c_str(), 0);
}

int NewFile::write(std::string_view content) const { return write_all(fd_, content); }

int NewFile::publish_new(const std::string& name) {
  const int directory = directory_->get();
  if (::renameat2(directory, name_.c_str(), directory, name.c_str(), RENAME_NOREPLACE) == 0) {
    name_.clear();
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // link(2) never replaces either; the destructor removes the other name.
  return ::linkat(directory, name_.c_str(), directory, name.c_str(), 0) == 0 ? 0 : errno;
}

int NewFile::publish_over(const std::string& name) {
  const int directory = directory_->get();
  if (::renameat(directory, name_.c_str(), directory, name.c_str()) != 0) return errno;
  name_.clear();
  return 0;
}

int write_all(const os::UniqueFd& fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count =
        os::retry_eintr([&] { return ::write(fd.get(), content.data(), content.size()); });
    if (count < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace daiv::agent
