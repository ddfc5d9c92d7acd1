#include "runtime/processors.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "os/error.hpp"
#include "runtime/cgroup.hpp"

namespace daiv::runtime::test {
namespace {

using List = std::vector<unsigned>;

TEST(CountProcessors, RoundsAFractionUp) {
  EXPECT_EQ(count_processors({.cpu_millis = 1}, 64), 1U);
  EXPECT_EQ(count_processors({.cpu_millis = 1000}, 64), 1U);
  EXPECT_EQ(count_processors({.cpu_millis = 1001}, 64), 2U);
  EXPECT_EQ(count_processors({.cpu_millis = 2500}, 64), 3U);
}

TEST(CountProcessors, IsNoneWhereNothingIsTakenAway) {
  EXPECT_EQ(count_processors({}, 64), 0U);
  EXPECT_EQ(count_processors({.cpu_millis = 2000}, 2), 0U);
  EXPECT_EQ(count_processors({.cpu_millis = 9000}, 2), 0U);
}

TEST(ChooseProcessors, SpreadsSessionsOverAll) {
  const std::array available{0U, 1U, 4U, 5U, 6U};
  std::map<unsigned, int> uses;
  for (std::size_t range = 0; range < available.size(); ++range)
    for (const unsigned number : choose_processors(available, 2, range)) ++uses[number];
  EXPECT_EQ(uses, (std::map<unsigned, int>{{0, 2}, {1, 2}, {4, 2}, {5, 2}, {6, 2}}));
}

TEST(ChooseProcessors, GivesEachProcessorOnce) {
  const std::array available{2U, 3U, 7U};
  EXPECT_EQ(choose_processors(available, 2, 1), (List{2U, 7U}));
  EXPECT_EQ(choose_processors(available, 9, 0), (List{2U, 3U, 7U}));
}

TEST(ProcessorList, IsReadAsTheKernelWritesIt) {
  EXPECT_EQ(parse_processor_list("0\n"), List{0});
  EXPECT_EQ(parse_processor_list("0-2,7\n"), (List{0, 1, 2, 7}));
  EXPECT_EQ(parse_processor_list("3,5-6"), (List{3, 5, 6}));
  EXPECT_EQ(parse_processor_list("\n"), List{});
}

TEST(ProcessorList, IsNothingElse) {
  for (const char* text : {"x", "1-", "-1", "2-1", "1,1", "2,1", "1,", ",1", "0-4000000000",
                           "99999999999", "1 2", "0\n1", "0-1-2"})
    EXPECT_EQ(parse_processor_list(text), std::nullopt) << text;
}

TEST(ProcessorList, IsReadBackAsItWasWritten) {
  const List list{0, 3, 4, 17};
  EXPECT_EQ(parse_processor_list(format_processor_list(list)), list);
}

// A directory with the files of a cgroup that are read.
class SessionsCpuset : public testing::Test {
protected:
  SessionsCpuset() : path_(testing::TempDir() + "/cpuset-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) os::throw_errno("mkdtemp", path_);
    for (const char* file : {"cgroup.controllers", "cgroup.subtree_control"}) write(file, "");
  }
  ~SessionsCpuset() override { std::filesystem::remove_all(path_); }

  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ + "/" + file) << text;
  }
  [[nodiscard]] List processors() const { return CgroupRoot::open(path_).processors(); }

  std::string path_;
};

TEST_F(SessionsCpuset, IsNotMissed) { EXPECT_EQ(processors(), read_processors()); }

TEST_F(SessionsCpuset, LeavesOutProcessors) {
  const unsigned last = read_processors().back();
  write("cpuset.cpus.effective", std::to_string(last) + "," + std::to_string(last + 1) + "\n");
  EXPECT_EQ(processors(), List{last});
}

TEST_F(SessionsCpuset, CountsWhereTheAffinityLeavesNoneOfIt) {
  const unsigned beyond = read_processors().back() + 1;
  write("cpuset.cpus.effective", std::to_string(beyond) + "\n");
  EXPECT_EQ(processors(), List{beyond});
}

TEST_F(SessionsCpuset, ThatCantBeReadIsAnError) {
  write("cpuset.cpus.effective", "all\n");
  EXPECT_THROW(static_cast<void>(processors()), os::Error);
}

}  // namespace
}  // namespace daiv::runtime::test
