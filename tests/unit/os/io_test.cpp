#include "os/io.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "os/error.hpp"

namespace daiv::os {
namespace {

class InRoot : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/io-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
    root_ = open_file(path_, O_PATH | O_DIRECTORY);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  std::string path_;
  UniqueFd root_;
};

TEST(Error, NamesTheCallTheObjectAndTheErrno) {
  const Error error(EPERM, "mount_setattr", "proc");
  EXPECT_STREQ(error.what(), "mount_setattr proc: Operation not permitted (EPERM)");
}

TEST_F(InRoot, AbsoluteSymlinkStartsAgainAtTheRoot) {
  ASSERT_EQ(::symlinkat("/inside", root_.get(), "link"), 0);
  write_full(open_at(root_, "inside", O_WRONLY | O_CREAT, 0600), "ours");
  EXPECT_EQ(read_all(open_in_root(root_, "link", O_RDONLY), 100), "ours");
}

TEST_F(InRoot, DotDotCannotLeaveTheRoot) {
  ASSERT_EQ(::symlinkat("../../../../etc/passwd", root_.get(), "link"), 0);
  EXPECT_THROW(open_in_root(root_, "link", O_RDONLY), Error);
}

TEST_F(InRoot, MagicLinksAreRefused) {
  const UniqueFd proc = open_file("/proc/self", O_PATH | O_DIRECTORY);
  EXPECT_THROW(open_in_root(proc, "fd/0", O_PATH), Error);
}

TEST_F(InRoot, BeneathRefusesAnySymlink) {
  write_full(open_at(root_, "inside", O_WRONLY | O_CREAT, 0600), "ours");
  ASSERT_EQ(::symlinkat("inside", root_.get(), "link"), 0);
  EXPECT_THROW(open_beneath(root_, "link", O_RDONLY), Error);
}

TEST_F(InRoot, ReadAllRefusesMoreThanAllowed) {
  write_full(open_at(root_, "big", O_WRONLY | O_CREAT, 0600), std::string(5000, 'x'));
  EXPECT_THROW(read_all(open_at(root_, "big", O_RDONLY), 4999), Error);
  EXPECT_EQ(read_all(open_at(root_, "big", O_RDONLY), 5000).size(), 5000U);
}

TEST(Pipe, BothEndsAreCloseOnExec) {
  const Pipe pipe = make_pipe();
  EXPECT_EQ(::fcntl(pipe.read_end.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(pipe.write_end.get(), F_GETFD), FD_CLOEXEC);
}

}  // namespace
}  // namespace daiv::os
