#include "runtime/directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "os/io.hpp"

namespace daiv::runtime {
namespace {

namespace fs = std::filesystem;

class Directory : public testing::Test {
protected:
  Directory() {
    std::string pattern = "/tmp/daiv-directory-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
    fd_ = os::open_file(path_, O_RDONLY | O_DIRECTORY);
  }
  ~Directory() override { fs::remove_all(path_); }

  Owner me() const { return {::getuid(), ::getgid()}; }

  fs::path path_;
  os::UniqueFd fd_;
};

TEST_F(Directory, RemovesATreeAndNothingThatItsLinksLeadTo) {
  fs::create_directories(path_ / "outside");
  std::ofstream(path_ / "outside/kept") << "x";
  fs::create_directories(path_ / "tree/a/b/c");
  fs::create_directory_symlink(path_ / "outside", path_ / "tree/a/link");
  std::ofstream(path_ / "tree/a/b/file") << "x";
  remove_tree(fd_, "tree");
  EXPECT_FALSE(fs::exists(path_ / "tree"));
  EXPECT_TRUE(fs::exists(path_ / "outside/kept"));
}

TEST_F(Directory, RemovesATreeDeeperThanAPathMayBeLong) {
  os::UniqueFd deep = os::duplicate(fd_);
  for (int depth = 0; depth < 5000; ++depth) {
    ASSERT_EQ(::mkdirat(deep.get(), "d", 0700), 0);
    deep = os::open_at(deep, "d", O_PATH | O_DIRECTORY);
  }
  deep.reset();
  remove_tree(fd_, "d");
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(Directory, RemovesATreeWithNamesLikeItsOwn) {
  for (const char* name : {"t/.removed-0/x", "t/.removed-1/.removed-0/x", "t/a/b"})
    fs::create_directories(path_ / name);
  remove_tree(fd_, "t");
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(Directory, OfOursTakesThePlaceOfALink) {
  fs::create_directory(path_ / "elsewhere");
  fs::create_directory_symlink("elsewhere", path_ / "own");
  open_own_directory(fd_, "own", 0750, me());
  EXPECT_FALSE(fs::is_symlink(path_ / "own"));
  EXPECT_TRUE(fs::is_directory(path_ / "own"));
  EXPECT_TRUE(fs::exists(path_ / "elsewhere"));
}

TEST_F(Directory, OfTheImageMayBeALinkThatStaysInside) {
  fs::create_directories(path_ / "usr/etc");
  fs::create_directory_symlink("/usr/etc", path_ / "etc");
  open_image_directory(fd_, "etc", 0755, me());
  EXPECT_TRUE(fs::is_symlink(path_ / "etc"));
  fs::create_directory_symlink("/nowhere", path_ / "tmp");
  open_image_directory(fd_, "tmp", 0755, me());
  EXPECT_FALSE(fs::is_symlink(path_ / "tmp"));
}

ino_t number_of(const fs::path& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_ino;
}

TEST_F(Directory, AFileThatIsAsItShouldBeStays) {
  replace_file(fd_, "file", "content");
  const ino_t first = number_of(path_ / "file");
  replace_file(fd_, "file", "content");
  EXPECT_EQ(number_of(path_ / "file"), first);
}

TEST_F(Directory, AFileThatDiffersInAnythingIsReplaced) {
  const auto replaced_after = [&](auto change) {
    replace_file(fd_, "file", "content");
    os::UniqueFd old = os::open_at(fd_, "file", O_PATH);  // keeps its number from the next one
    const ino_t before = number_of(path_ / "file");
    change();
    replace_file(fd_, "file", "content");
    EXPECT_EQ(os::read_file(path_ / "file", 100), "content");
    return number_of(path_ / "file") != before;
  };
  EXPECT_TRUE(replaced_after([&] { std::ofstream(path_ / "file") << "c0ntent"; }));
  EXPECT_TRUE(replaced_after([&] { std::ofstream(path_ / "file") << "content and more"; }));
  EXPECT_TRUE(replaced_after([&] { ::chmod((path_ / "file").c_str(), 0666); }));
  EXPECT_TRUE(replaced_after([&] { ::chmod((path_ / "file").c_str(), 04644); }));
  EXPECT_TRUE(replaced_after([&] { fs::create_hard_link(path_ / "file", path_ / "other"); }));
  EXPECT_TRUE(replaced_after([&] {
    fs::rename(path_ / "file", path_ / "elsewhere");
    fs::create_symlink("elsewhere", path_ / "file");
  }));
  EXPECT_FALSE(fs::is_symlink(path_ / "file"));
}

TEST_F(Directory, AFileTakesThePlaceOfAnything) {
  std::ofstream(path_ / "victim") << "kept";
  fs::create_symlink("victim", path_ / "link");
  fs::create_directories(path_ / "directory/full");
  ASSERT_EQ(::mkfifo((path_ / "fifo").c_str(), 0600), 0);
  for (const char* name : {"link", "directory", "fifo", "new"}) {
    replace_file(fd_, name, "content");
    EXPECT_EQ(os::read_file(path_ / name, 100), "content") << name;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path_ / name))) << name;
  }
  EXPECT_EQ(os::read_file(path_ / "victim", 100), "kept");
}

}  // namespace
}  // namespace daiv::runtime
