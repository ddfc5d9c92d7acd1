#include "fs_fixture.hpp"

#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

#include <memory>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr uid_t ordinary_user = 65534;

int unlock(const char* path, const struct stat* status, int /*type*/, struct FTW* /*level*/) {
  if (S_ISDIR(status->st_mode)) ::chmod(path, 0700);
  return 0;
}

int remove_entry(const char* path, const struct stat* /*status*/, int /*type*/,
                 struct FTW* /*level*/) {
  ::remove(path);
  return 0;
}

}  // namespace

void FsTest::SetUp() {
  was_root_ = ::geteuid() == 0;
  if (was_root_) {
    os::check(::setegid(ordinary_user), "setegid", "test");
    os::check(::seteuid(ordinary_user), "seteuid", "test");
  }
  base_ = "/tmp/daiv-fs-XXXXXX";
  ASSERT_NE(::mkdtemp(base_.data()), nullptr);
  root_ = std::make_unique<FsRoot>(os::open_file(base_, O_PATH | O_DIRECTORY));
  make_directory("/workspace");
  make_directory("/workspace/repo");
}

void FsTest::TearDown() {
  root_.reset();
  // Twice: locked directories are opened on the way down, and only then can be read.
  for (int i = 0; i < 2; ++i) ::nftw(base_.c_str(), unlock, 16, FTW_PHYS);
  ::nftw(base_.c_str(), remove_entry, 16, FTW_PHYS | FTW_DEPTH);
  EXPECT_NE(::access(base_.c_str(), F_OK), 0);
  if (was_root_) {
    os::check(::seteuid(0), "seteuid", "test");
    os::check(::setegid(0), "setegid", "test");
  }
}

void FsTest::make_file(std::string_view path, std::string_view content, mode_t mode) const {
  const os::UniqueFd fd = os::open_file(host(path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  os::write_full(fd, content);
  os::check(::fchmod(fd.get(), mode), "fchmod", host(path));
}

void FsTest::make_directory(std::string_view path, mode_t mode) const {
  os::check(::mkdir(host(path).c_str(), 0700), "mkdir", host(path));
  os::check(::chmod(host(path).c_str(), mode), "chmod", host(path));
}

void FsTest::make_link(std::string_view path, const std::string& target) const {
  os::check(::symlink(target.c_str(), host(path).c_str()), "symlink", host(path));
}

std::string FsTest::content(std::string_view path) const {
  return os::read_file(host(path), 64U << 20);
}

struct stat FsTest::status(std::string_view path) const {
  struct stat result{};
  os::check(::lstat(host(path).c_str(), &result), "lstat", host(path));
  return result;
}

bool FsTest::exists(std::string_view path) const {
  struct stat result{};
  return ::lstat(host(path).c_str(), &result) == 0;
}

}  // namespace daiv::agent
