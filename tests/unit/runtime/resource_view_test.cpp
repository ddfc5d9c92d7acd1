#include "runtime/resource_view.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "os/io.hpp"
#include "os/mount.hpp"
#include "os/process.hpp"
#include "runtime/rootfs.hpp"

namespace daiv::runtime::test {
namespace {

constexpr std::string_view two_processors =
    "processor\t: 0\nmodel name\t: X\n\nprocessor\t: 1\nmodel name\t: X\n\n";

TEST(ResourceViews, NumberTheProcessorsAnew) {
  const auto views = plan_views({.cpu_millis = 500}, 1, two_processors);
  ASSERT_EQ(views.size(), 4U);
  EXPECT_EQ(views[0], (ViewFile{"proc", "cpuinfo", "processor\t: 0\nmodel name\t: X\n\n"}));
  EXPECT_EQ(views[1], (ViewFile{"sys", "devices/system/cpu/online", "0\n"}));
  EXPECT_EQ(plan_views({.cpu_millis = 2000}, 2, two_processors)[1].content, "0-1\n");
}

TEST(ResourceViews, ShowTheMemoryLimitAsTheMachines) {
  const auto views = plan_views({.memory_bytes = 64U << 20}, 0, "");
  ASSERT_EQ(views.size(), 1U);
  EXPECT_EQ(views[0].path, "meminfo");
  EXPECT_EQ(views[0].content.substr(0, 28), "MemTotal:          65536 kB\n");
  EXPECT_NE(views[0].content.find("SwapTotal:"), std::string::npos);
}

TEST(ResourceViews, AreNoneWithoutLimits) { EXPECT_TRUE(plan_views({}, 0, "").empty()); }

// In a mount namespace of the test's own, on an empty root.
std::string read_below_a_covered_root(std::span<const ViewFile> views, const std::string& path) {
  os::Pipe answer = os::make_pipe();
  os::Child child = os::clone_process(CLONE_NEWNS);
  if (!child) {
    std::string text;
    try {
      os::make_mounts_private();
      const os::UniqueFd root = os::make_mount("tmpfs", {}, 0);
      os::attach_mount(root, os::open_file("/mnt", O_PATH | O_DIRECTORY));
      mount_system_directories(root, views);
      text = os::read_all(os::open_at(root, path, O_RDONLY), 1U << 20);
    } catch (const std::exception& error) {
      text = error.what();
    }
    os::write_full(answer.write_end, text);
    ::_exit(0);
  }
  answer.write_end.reset();
  std::string text = os::read_all(answer.read_end, 1U << 20);
  child.wait();
  return text;
}

TEST(ResourceViews, CoverTheKernelsFiles) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto views = plan_views({.memory_bytes = 64U << 20, .cpu_millis = 500}, 1, two_processors);
  EXPECT_EQ(read_below_a_covered_root(views, "proc/cpuinfo"), views[0].content);
  EXPECT_EQ(read_below_a_covered_root(views, "sys/devices/system/cpu/online"), "0\n");
  EXPECT_EQ(read_below_a_covered_root(views, "proc/meminfo"), views.back().content);
  const std::string mounts = read_below_a_covered_root(views, "proc/self/mountinfo");
  EXPECT_EQ(mounts.find("/dev/mqueue rw,nosuid,nodev,noexec,relatime - tmpfs"), std::string::npos)
      << "the filesystem that they lie in is still there";
}

}  // namespace
}  // namespace daiv::runtime::test
