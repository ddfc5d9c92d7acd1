#include "runtime/hold.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace daiv::runtime {
namespace {

namespace fs = std::filesystem;

// The files of a unit's cgroup that the holder reads and writes.
class Hold : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/hold-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    unit_ = pattern;
    fs::create_directory(unit_ / "holder");
    for (const char* name : {"holder/cgroup.procs", "cgroup.controllers", "cgroup.subtree_control"})
      std::ofstream(unit_ / name).flush();
  }
  void TearDown() override { fs::remove_all(unit_); }

  fs::path unit_;
};

TEST_F(Hold, LetsSandboxesWalkToTheirCgroupsWhateverTheUmask) {
  const mode_t before = ::umask(0077);
  hold_cgroup(unit_);
  ::umask(before);
  EXPECT_EQ(fs::status(unit_ / "sessions").permissions(), fs::perms{0755});
}

}  // namespace
}  // namespace daiv::runtime
