#include "os/mount.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/process.hpp"

namespace daiv::os::test {
namespace {

// Mounts below a copy of a shared mount, in a mount namespace of its own, and tells all mounts.
std::string mount_below_a_copy() {
  Pipe answer = make_pipe();
  Child child = clone_process(CLONE_NEWNS);
  if (!child) {
    std::string text;
    try {
      make_mounts_private();
      mount_filesystem("tmpfs", "/mnt", 0, "");
      check(::mount(nullptr, "/mnt", nullptr, MS_SHARED, nullptr), "mount", "shared");
      for (const char* name : {"/mnt/copy", "/mnt/inner"})
        check(::mkdir(name, 0755), "mkdir", name);
      const UniqueFd copy = clone_mount(open_file("/mnt", O_PATH | O_DIRECTORY), "");
      attach_mount(copy, open_file("/mnt/copy", O_PATH | O_DIRECTORY));
      mount_filesystem("tmpfs", "/mnt/copy/inner", 0, "");
      text = read_file("/proc/self/mountinfo", 1U << 20);
    } catch (const std::exception& error) {
      text = error.what();
    }
    write_full(answer.write_end, text);
    ::_exit(0);
  }
  answer.write_end.reset();
  std::string text = read_all(answer.read_end, 1U << 20);
  child.wait();
  return text;
}

TEST(CloneMount, ReceivesAndPassesOnNoMounts) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string mounts = mount_below_a_copy();
  EXPECT_NE(mounts.find(" /mnt/copy/inner "), std::string::npos) << mounts;
  EXPECT_EQ(mounts.find(" /mnt/inner "), std::string::npos) << mounts;
}

TEST(RunInChild, SharesMemoryAndDescriptorsAndNothingElse) {
  struct State {
    pid_t pid = 0;
    int fd = -1;
  } state;
  const mode_t mask = ::umask(0022);
  run_in_child(
      0, nullptr,
      [](void* argument) {
        auto& shared = *static_cast<State*>(argument);
        shared.pid = ::getpid();
        shared.fd = ::dup(STDIN_FILENO);
        ::umask(0777);
      },
      &state);
  EXPECT_NE(state.pid, 0);
  EXPECT_NE(state.pid, ::getpid());
  EXPECT_EQ(::close(state.fd), 0);
  EXPECT_EQ(::umask(mask), 0022U);
  const auto ended = reap_any();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->pid, state.pid);
  EXPECT_TRUE(ended->status.success());
}

TEST(RunInChild, SaysThatThereIsNoChild) {
  const UniqueFd no_cgroup = open_file("/", O_PATH | O_DIRECTORY);
  EXPECT_THROW(run_in_child(0, &no_cgroup, [](void*) {}, nullptr), Error);
}

}  // namespace
}  // namespace daiv::os::test
