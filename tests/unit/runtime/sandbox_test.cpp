#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "broker_rig.hpp"
#include "os/io.hpp"

namespace daiv::runtime::test {
namespace {

using namespace std::chrono_literals;

class Sandbox : public testing::Test {
protected:
  void SetUp() override { DAIV_REQUIRE_ROOT(); }
};

Failure failure_of(const Reply& reply) { return std::get<Failed>(reply.answer).kind; }

// Namespaces go asynchronously; everything else is gone when the answer comes.
Inventory settle(const BrokerRig& rig, const Inventory& wanted) {
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  Inventory now = count_traces(rig);
  while (now != wanted && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);  // polled: nothing reports the end of a namespace
    now = count_traces(rig);
  }
  return now;
}

TEST_F(Sandbox, IsCreatedSpeaksAndIsKilled) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "read /proc/sys/kernel/hostname"), "box\n");
  EXPECT_TRUE(std::holds_alternative<Done>(rig.call(KillSandbox{request.session}).answer));
  EXPECT_EQ(os::wait_for(pidfd, POLLIN, 0ms), os::Readiness::ready);
}

TEST_F(Sandbox, SeesOnlyItsOwnUidRange) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  const std::string map = rig.ask(request.session, "read /proc/self/uid_map");
  EXPECT_NE(map.find(std::to_string(request.uid_base)), std::string::npos) << map;
  EXPECT_NE(map.find("65536"), std::string::npos) << map;
}

TEST_F(Sandbox, MountsNameNoPathOfTheHost) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  const std::string mounts = rig.ask(request.session, "read /proc/self/mountinfo");
  EXPECT_EQ(mounts.find(rig.state()), std::string::npos) << mounts;
  EXPECT_EQ(mounts.find("/tmp/"), std::string::npos) << mounts;
  EXPECT_EQ(mounts.find(request.session), std::string::npos) << mounts;
  EXPECT_NE(mounts.find("upperdir=../upper"), std::string::npos) << mounts;
}

TEST_F(Sandbox, InheritsNoDescriptorAndNoEnvironment) {
  BrokerRig rig({"SECRET=of-the-broker"});
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  // 7 was the status pipe, closed by the agent; the connection that asks takes its number.
  EXPECT_EQ(rig.ask(request.session, "list /proc/self/fd"), "0\n1\n2\n3\n4\n5\n6\n7\n");
  // Not even itself may read it: the agent's program is unreadable, so it is not dumpable.
  EXPECT_EQ(rig.ask(request.session, "read /proc/self/environ"), "error open EACCES");
  EXPECT_EQ(rig.ask(request.session, "environment"), "");
  EXPECT_EQ(rig.ask(request.session, "link /proc/self/cwd"), "/");
}

TEST_F(Sandbox, HasNoNetworkButLoopback) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "interfaces"), "lo\n");
}

TEST_F(Sandbox, CannotChangeTheKernelThroughProcAndSys) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "stat /proc/interrupts"), "20666 65534 65534 1:3");
  EXPECT_EQ(rig.ask(request.session, "read /proc/interrupts"), "");
  EXPECT_EQ(rig.ask(request.session, "list /sys/firmware"), "");
  const std::string mounts = rig.ask(request.session, "read /proc/self/mountinfo");
  EXPECT_NE(mounts.find(" /sys /proc/sys ro,nosuid,nodev,noexec"), std::string::npos) << mounts;
  EXPECT_NE(mounts.find(" / /sys ro,nosuid,nodev,noexec"), std::string::npos) << mounts;
}

TEST_F(Sandbox, HasItsOwnDevices) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_TRUE(rig.ask(request.session, "stat /dev/null").ends_with(" 1:3"));
  EXPECT_TRUE(rig.ask(request.session, "stat /dev/urandom").ends_with(" 1:9"));
  EXPECT_EQ(rig.ask(request.session, "link /dev/ptmx"), "pts/ptmx");
  EXPECT_EQ(rig.ask(request.session, "stat /dev/shm").substr(0, 5), "41777");
  EXPECT_EQ(rig.ask(request.session, "stat /dev/vda"), "error lstat ENOENT");
}

TEST_F(Sandbox, KeepsOnlyTheAgreedCapabilities) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  const std::string status = rig.ask(request.session, "read /proc/self/status");
  EXPECT_NE(status.find("CapBnd:\t00000000a80405fb"), std::string::npos) << status;
  EXPECT_NE(status.find("CapEff:\t00000000a80405fb"), std::string::npos) << status;
  EXPECT_NE(status.find("NoNewPrivs:\t1"), std::string::npos) << status;
}

TEST_F(Sandbox, KeepsSysAdminForTheAgentOnlyWhereSetuidIsAllowed) {
  BrokerRig rig;
  CreateSandbox request = rig.request();
  request.no_new_privs = false;
  const os::UniqueFd pidfd = rig.create(request);
  const std::string status = rig.ask(request.session, "read /proc/self/status");
  EXPECT_NE(status.find("CapBnd:\t00000000a82405fb"), std::string::npos) << status;
  EXPECT_NE(status.find("NoNewPrivs:\t0"), std::string::npos) << status;
}

TEST_F(Sandbox, SeesTheSessionsCgroupAsTheRoot) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  const std::string cgroups = rig.ask(request.session, "read /proc/self/cgroup");
  EXPECT_EQ(cgroups.find(request.session), std::string::npos) << cgroups;
  EXPECT_EQ(cgroups.find(".."), std::string::npos) << cgroups;
  EXPECT_TRUE(cgroups.ends_with("0::/agent\n")) << cgroups;
  // What is mounted shows the session's limits and leaves, and nothing beside them.
  EXPECT_NE(rig.ask(request.session, "list /sys/fs/cgroup").find("agent\n"), std::string::npos);
  const std::string mounts = rig.ask(request.session, "read /proc/self/mountinfo");
  EXPECT_NE(mounts.find(" / /sys/fs/cgroup ro,"), std::string::npos) << mounts;
}

TEST_F(Sandbox, MakesWorkspaceForTheRunUser) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  for (const char* path : {"/workspace", "/workspace/repo", "/workspace/skills", "/workspace/tmp",
                           "/home/daiv-sandbox"})
    EXPECT_EQ(rig.ask(request.session, fmt::format("stat {}", path)).substr(0, 16),
              "40755 1000 1000 ")
        << path;
  EXPECT_EQ(rig.ask(request.session, "stat /tmp").substr(0, 10), "41777 0 0 ");
}

TEST_F(Sandbox, MapsARunUidAboveTheRange) {
  BrokerRig rig;
  CreateSandbox request = rig.request();
  request.run_uid = 1'000'000;
  request.run_gid = 2'000'000;
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "stat /workspace").substr(0, 22), "40755 1000000 2000000 ");
}

// CVE-2026-41579 and its like: what the image has in our places leads nowhere.
TEST_F(Sandbox, ReplacesLinksAndFilesInPlaceOfItsDirectories) {
  BrokerRig rig;
  const std::string layer = rig.add_layer(
      "ln -s /tmp dev && ln -s ../../../../.. proc && echo x > sys && mkdir etc && ln -s "
      "/nowhere/x etc/resolv.conf && "
      "mkdir -p etc/hosts/deep/er && mkfifo etc/hostname && ln -s /tmp workspace && echo x > home");
  const CreateSandbox request = rig.request({layer});
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_TRUE(rig.ask(request.session, "stat /dev/null").ends_with(" 1:3"));
  EXPECT_NE(rig.ask(request.session, "read /etc/resolv.conf").find("no name server"),
            std::string::npos);
  EXPECT_NE(rig.ask(request.session, "read /etc/hosts").find("localhost"), std::string::npos);
  EXPECT_EQ(rig.ask(request.session, "read /etc/hostname"), "box\n");
  EXPECT_EQ(rig.ask(request.session, "stat /workspace").substr(0, 6), "40755 ");
  EXPECT_FALSE(std::filesystem::exists("/nowhere"));
}

TEST_F(Sandbox, WorksWithAnEmptyImage) {
  BrokerRig rig;
  const CreateSandbox request = rig.request({rig.add_layer("true")});
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "list /workspace/repo"), "");
}

TEST_F(Sandbox, WorksWithALinkedEtc) {
  BrokerRig rig;
  const CreateSandbox request =
      rig.request({rig.add_layer("mkdir -p usr/etc && ln -s usr/etc etc")});
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "read /usr/etc/hostname"), "box\n");
}

void expect_layers_work(BrokerRig& rig, int count) {
  std::vector<std::string> layers;
  for (int index = 0; index < count; ++index)
    layers.push_back(rig.add_layer(fmt::format("mkdir n && echo {0} > n/{0}", index)));
  const CreateSandbox request = rig.request(layers);
  const os::UniqueFd pidfd = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "read /n/0"), "0\n");
  EXPECT_EQ(rig.ask(request.session, fmt::format("read /n/{}", count - 1)),
            fmt::format("{}\n", count - 1));
}

TEST_F(Sandbox, Has120Layers) {
  BrokerRig rig;
  expect_layers_work(rig, 120);
}

TEST_F(Sandbox, Has500LayersInAStateDirectoryWithALongName) {
  BrokerRig rig({}, std::string(180, 's'));
  expect_layers_work(rig, 500);
}

TEST_F(Sandbox, Refuses501LayersBeforeItMakesAnything) {
  BrokerRig rig;
  CreateSandbox request = rig.request();
  request.layers.clear();
  for (int index = 0; index < 501; ++index) request.layers.push_back(fmt::format("x{:05}", index));
  const Reply reply = rig.try_create(request);
  EXPECT_EQ(failure_of(reply), Failure::invalid);
  EXPECT_NE(failure_text(reply).find("501 layers"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(rig.state() + "/sessions"));
}

TEST_F(Sandbox, KeepsItsWritableLayerOverAKill) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd first = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "write /workspace/repo/kept"), "ok");
  rig.call(KillSandbox{request.session});
  const os::UniqueFd second = rig.create(request);
  EXPECT_EQ(rig.ask(request.session, "read /workspace/repo/kept"), "x");
}

TEST_F(Sandbox, RemovalLeavesNothing) {
  BrokerRig rig;
  rig.call(ListLayers{});
  const std::string layer = rig.add_layer();
  const Inventory before = count_traces(rig);
  for (int round = 0; round < 5; ++round) {
    const CreateSandbox request = rig.request({layer});
    const os::UniqueFd pidfd = rig.create(request);
    EXPECT_EQ(rig.ask(request.session, "fork 20"), "ok 20");
    EXPECT_NE(count_traces(rig), before);  // the count sees a sandbox
    rig.call(RemoveSandbox{request.session});
    EXPECT_EQ(count_traces(rig).processes, 0U);  // zombies count too
    EXPECT_FALSE(std::filesystem::exists(rig.state() + "/sessions/" + request.session));
    EXPECT_FALSE(std::filesystem::exists(rig.run() + "/sessions/" + request.session));
  }
  EXPECT_EQ(settle(rig, before), before);
}

// The first field is the time on a processor (scheduler, sched-stats.rst).
std::chrono::nanoseconds processor_time(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/schedstat", pid);
  return std::chrono::nanoseconds(std::stoll(os::read_file(path, 100)));
}

TEST_F(Sandbox, TheBrokerRestsThoughSomebodyHoldsAnEndedAgent) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  rig.call(RemoveSandbox{request.session});
  const auto before = processor_time(rig.broker_pid());
  std::this_thread::sleep_for(500ms);  // what is measured is that nothing happens
  EXPECT_LT(processor_time(rig.broker_pid()) - before, 250ms);  // a broker that spins takes 500
}

TEST_F(Sandbox, AnAgentThatFailsLeavesNothingAndSaysWhy) {
  BrokerRig rig;
  const std::string layer = rig.add_layer();
  const Inventory before = count_traces(rig);
  const CreateSandbox request = rig.request({layer});
  const Reply failing = rig.try_create(request, "fail");
  EXPECT_EQ(failure_text(failing), "agent: config says fail");
  const Reply dying = rig.try_create(request, "die");
  EXPECT_EQ(failure_of(dying), Failure::internal);
  EXPECT_EQ(settle(rig, before), before);
  EXPECT_TRUE(std::filesystem::is_empty(rig.state() + "/sessions"));
  EXPECT_TRUE(std::filesystem::is_empty(rig.run() + "/sessions"));
}

TEST_F(Sandbox, AMountThatFailsLeavesNothing) {
  BrokerRig rig;
  const std::string layer = rig.add_layer();
  const Inventory before = count_traces(rig);
  const CreateSandbox request = rig.request({layer});
  // A file in place of a layer: overlayfs refuses it in the middle of the creation.
  std::filesystem::remove_all(rig.state() + "/layers/" + layer);
  ASSERT_EQ(std::system(fmt::format("touch {}/layers/{}", rig.state(), layer).c_str()), 0);
  const Reply reply = rig.try_create(request);
  EXPECT_EQ(failure_of(reply), Failure::internal);
  EXPECT_NE(failure_text(reply).find("mount overlay"), std::string::npos) << failure_text(reply);
  EXPECT_EQ(settle(rig, before), before);
  EXPECT_TRUE(std::filesystem::is_empty(rig.state() + "/sessions"));
}

TEST_F(Sandbox, ProcessesOfASessionAreBounded) {
  BrokerRig rig;
  CreateSandbox request = rig.request();
  request.limits.pids = 50;
  const os::UniqueFd pidfd = rig.create(request);
  // One is the agent itself.
  EXPECT_EQ(rig.ask(request.session, "fork 100"), "EAGAIN 49");
}

TEST_F(Sandbox, AForkStormIsBoundedAndStopsNobodyElse) {
  BrokerRig rig;
  CreateSandbox request = rig.request();
  request.limits.pids = 200;
  const os::UniqueFd pidfd = rig.create(request);
  ASSERT_EQ(rig.ask(request.session, "storm"), "ok");
  const auto full = std::chrono::steady_clock::now() + 10s;
  while (count_traces(rig).processes < 200 && std::chrono::steady_clock::now() < full)
    std::this_thread::yield();
  const CreateSandbox other = rig.request();
  const os::UniqueFd other_pidfd = rig.create(other);
  EXPECT_EQ(rig.ask(other.session, "read /etc/hostname"), "box\n");
  EXPECT_LE(count_traces(rig).processes, 201U);
  EXPECT_TRUE(std::holds_alternative<Done>(rig.call(RemoveSandbox{request.session}).answer));
  EXPECT_EQ(count_traces(rig).processes, 1U);
}

TEST_F(Sandbox, AMemoryLimitIsSetOrRefused) {
  BrokerRig rig;
  CreateSandbox request = rig.request();
  request.limits.memory_bytes = 256U << 20;
  const Reply reply = rig.try_create(request);
  if (std::filesystem::exists(rig.cgroup() + "/memory.max")) {
    EXPECT_TRUE(std::holds_alternative<Created>(reply.answer));
  } else {
    EXPECT_EQ(failure_of(reply), Failure::unsupported);
    EXPECT_NE(failure_text(reply).find("memory controller"), std::string::npos);
  }
}

TEST_F(Sandbox, ARangeBelongsToOneSession) {
  BrokerRig rig;
  const CreateSandbox first = rig.request();
  CreateSandbox second = rig.request();
  second.uid_base = first.uid_base;
  const os::UniqueFd pidfd = rig.create(first);
  EXPECT_EQ(failure_of(rig.try_create(second)), Failure::range_taken);
  second.uid_base = uid_start;  // the storage range
  EXPECT_EQ(failure_of(rig.try_create(second)), Failure::invalid);
  rig.call(RemoveSandbox{first.session});
  second.uid_base = first.uid_base;
  const os::UniqueFd later = rig.create(second);
}

TEST_F(Sandbox, OutlivesTheBrokerAndIsAdopted) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  rig.restart();
  EXPECT_EQ(rig.ask(request.session, "read /etc/hostname"), "box\n");
  const Reply adopted = rig.call(AdoptSandbox{request.session});
  ASSERT_TRUE(std::holds_alternative<Created>(adopted.answer)) << failure_text(adopted);
  EXPECT_EQ(adopted.fds.size(), 1U);
  const auto inventory = std::get<runtime::Inventory>(rig.call(ListSandboxes{}).answer);
  ASSERT_EQ(inventory.sandboxes.size(), 1U);
  EXPECT_TRUE(inventory.sandboxes[0].running);
  rig.call(KillSandbox{request.session});
  EXPECT_EQ(os::wait_for(pidfd, POLLIN, 2s), os::Readiness::ready);
  EXPECT_EQ(failure_of(rig.call(AdoptSandbox{request.session})), Failure::not_found);
}

TEST_F(Sandbox, ProbeTriesTheHost) {
  BrokerRig rig;
  const auto report = std::get<HostReport>(rig.call(ProbeHost{}).answer);
  ASSERT_GE(report.checks.size(), 14U);
  for (std::size_t index = 0; index < report.checks.size(); index += 2) {
    if (report.checks[index] == "cgroups") continue;  // this host may lack controllers
    EXPECT_EQ(report.checks[index + 1], "ok") << report.checks[index];
  }
}

}  // namespace
}  // namespace daiv::runtime::test
