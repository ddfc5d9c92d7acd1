#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "agent/fs_protocol.hpp"
#include "os/error.hpp"
#include "sandboxed_agent.hpp"

namespace daiv::agent::test {
namespace {

using namespace std::chrono_literals;

class Server : public testing::Test {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  }
};

void expect_usable(const SandboxedAgent& agent) {
  EXPECT_EQ(agent.exec("echo usable").output, "usable\n");
}

TEST_F(Server, NoFrameEndsTheAgent) {
  const SandboxedAgent agent;
  const std::string payloads[] = {"", "x", std::string(1000, '\xff'), std::string(1000, '\0')};
  for (unsigned type = 0; type < 256; ++type)
    for (const auto& payload : payloads) {
      // A whole `terminate` of zeros does not exist (its payload has eight bytes), so nothing ends
      // the session.
      auto connection = agent.connect();
      connection.send_raw(make_frame(static_cast<std::uint8_t>(type), payload));
      ::shutdown(connection.socket().get(), SHUT_WR);
      char ignored = 0;
      while (::recv(connection.socket().get(), &ignored, 1, 0) > 0) {
      }
    }
  expect_usable(agent);
}

TEST_F(Server, AnnouncedLengthsCostNoMemory) {
  const SandboxedAgent agent;
  std::vector<FrontConnection> connections;
  for (int index = 0; index < 100; ++index) {
    connections.push_back(agent.connect());
    connections.back().send_raw(
        std::string("\0\0\0\4\1", frame_header_bytes));  // 64 MiB of exec, never sent
  }
  auto too_long = agent.connect();
  too_long.send_raw(std::string("\1\0\0\4\1", frame_header_bytes));
  EXPECT_EQ(too_long.receive().type, AnswerType::failed);
  expect_usable(agent);
}

TEST_F(Server, ManyIdleConnectionsAreRefusedNotFatal) {
  const SandboxedAgent agent;
  {
    std::vector<FrontConnection> connections;
    for (int index = 0; index < 300; ++index) connections.push_back(agent.connect());
    EXPECT_EQ(connections.back().receive().type, AnswerType::failed);
  }
  EXPECT_TRUE(eventually([&] {
    try {
      return agent.exec("echo usable").output == "usable\n";
    } catch (const std::runtime_error&) {
      return false;
    }
  }));
}

Answer list_repo(const SandboxedAgent& agent) {
  auto connection = agent.connect();
  connection.send(RequestType::fs, encode_fs_request(LsRequest{"/workspace/repo"}));
  return connection.receive();
}

TEST_F(Server, FileOperationsRunInAWorkerThatIsKept) {
  const SandboxedAgent agent;
  agent.exec("touch file");
  for (int round = 0; round < 3; ++round) {
    const auto answer = list_repo(agent);
    ASSERT_EQ(answer.type, AnswerType::fs);
    EXPECT_NE(answer.payload.find("/workspace/repo/file"), std::string::npos);
  }
  // One that was started while the first said that it is free goes soon.
  EXPECT_EQ(agent
                .exec("for i in $(seq 100); do [ $(pgrep -c daiv-files) = 1 ] && break; sleep 0.1; "
                      "done; pgrep -c daiv-files")
                .output,
            "1\n");
  EXPECT_EQ(agent
                .exec("stat -c %u /proc/$(pgrep daiv-files)/status; grep -E "
                      "'^(CapEff|NoNewPrivs|Seccomp:)' /proc/$(pgrep daiv-files)/status; ls "
                      "/proc/$(pgrep daiv-files)/fd 2>/dev/null || echo closed")
                .output,
            "0\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nclosed\n");
}

FrontConnection ask_for_repo(const SandboxedAgent& agent) {
  auto connection = agent.connect();
  connection.send(RequestType::fs, encode_fs_request(LsRequest{"/workspace/repo"}));
  return connection;
}

TEST_F(Server, AStoppedWorkerGoesOn) {
  const SandboxedAgent agent;
  ASSERT_EQ(list_repo(agent).type, AnswerType::fs);
  const std::string worker = agent.exec("pgrep daiv-files").output;
  for (const char* signal : {"STOP", "TSTP", "TTIN"}) {
    ASSERT_EQ(
        agent.exec(std::string("pkill -").append(signal).append(" daiv-files && echo sent")).output,
        "sent\n");
    auto connection = ask_for_repo(agent);
    ASSERT_TRUE(connection.wait(60s)) << signal;
    EXPECT_EQ(connection.receive().type, AnswerType::fs);
  }
  EXPECT_EQ(agent.exec("pgrep daiv-files").output, worker);
}

TEST_F(Server, AWorkerThatIsStoppedAgainAndAgainIsReplaced) {
  const SandboxedAgent agent;
  ASSERT_EQ(list_repo(agent).type, AnswerType::fs);
  // Ends when the worker is no more.
  EXPECT_EQ(
      agent
          .exec("worker=$(pgrep daiv-files); while kill -STOP $worker 2>/dev/null; do :; done; "
                "echo replaced",
                60s)
          .output,
      "replaced\n");
  EXPECT_EQ(list_repo(agent).type, AnswerType::fs);
  // Whatever worker there is: each request comes to an end, if perhaps without an answer.
  agent.exec(
      "(while :; do kill -STOP $(pgrep daiv-files); done) >/dev/null 2>&1 & echo $! >/tmp/stopper");
  for (int request = 0; request < 50; ++request) {
    ASSERT_TRUE(ask_for_repo(agent).wait(60s)) << request;
  }
  agent.exec("kill -KILL $(cat /tmp/stopper)");
  EXPECT_TRUE(eventually([&] { return list_repo(agent).type == AnswerType::fs; }, 30s));
}

TEST_F(Server, ARequestThatAKilledWorkerHadNotTakenUpGoesToAnother) {
  const SandboxedAgent agent;
  ASSERT_EQ(list_repo(agent).type, AnswerType::fs);
  agent.freeze_workers(true);
  auto connection = ask_for_repo(agent);
  EXPECT_FALSE(connection.wait(0ms));
  // Answered when the agent has taken up what came before it.
  ASSERT_EQ(agent.exec("pkill -KILL daiv-files; echo killed").output, "killed\n");
  agent.freeze_workers(false);
  ASSERT_TRUE(connection.wait(60s));
  EXPECT_EQ(connection.receive().type, AnswerType::fs);
}

TEST_F(Server, WorkersThatAreKilledAgainAndAgainKeepNobodyWaiting) {
  const SandboxedAgent agent;
  agent.exec(
      "(while :; do kill -KILL $(pgrep daiv-files); done) >/dev/null 2>&1 & echo $! >/tmp/killer");
  for (int request = 0; request < 50; ++request) {
    ASSERT_TRUE(ask_for_repo(agent).wait(60s)) << request;
  }
  agent.exec("kill -KILL $(cat /tmp/killer)");
  EXPECT_TRUE(eventually([&] { return list_repo(agent).type == AnswerType::fs; }, 30s));
}

TEST_F(Server, AnAbandonedRequestFreesItsWorker) {
  const SandboxedAgent agent;
  ASSERT_EQ(list_repo(agent).type, AnswerType::fs);
  agent.freeze_workers(true);
  {
    const auto abandoned = ask_for_repo(agent);
  }
  EXPECT_TRUE(eventually([&] { return agent.processes() == 0; }, 30s));
  agent.freeze_workers(false);
}

TEST_F(Server, RootInTheSandboxHasTheContainerCapabilities) {
  SandboxOptions options;
  options.config.run_uid = 0;
  options.config.run_gid = 0;
  const SandboxedAgent agent(options);
  EXPECT_EQ(agent.exec("grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status").output,
            "CapPrm:\t00000000a80405fb\nCapEff:\t00000000a80405fb\nCapBnd:"
            "\t00000000a80405fb\nNoNewPrivs:\t1\n");
  EXPECT_EQ(agent.exec("readlink /proc/1/fd/3; cat /proc/1/maps 2>/dev/null; kill -9 1; echo alive")
                .output,
            "alive\n");
}

TEST_F(Server, SetuidOnlyKeepsTheBoundingSetAndStillFilters) {
  SandboxOptions options;
  options.config.privilege_gain = PrivilegeGain::setuid_only;
  const SandboxedAgent agent(options);
  EXPECT_EQ(
      agent.exec("grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp:)' /proc/self/status; id -u").output,
      "CapEff:\t0000000000000000\nCapBnd:\t00000000a80405fb\nNoNewPrivs:\t0\nSeccomp:\t2\n1000\n");
}

TEST_F(Server, EndsWithAllOthersAtASigtermOfTheHosts) {
  const SandboxedAgent agent;
  agent.exec("sleep 600 >/dev/null 2>&1 &");
  // As a session's map has it, the host's root is nobody inside; this sandbox's has it as root.
  ASSERT_EQ(::setresuid(70'000, 0, 0), 0);
  const int sent = ::kill(agent.pid(), SIGTERM);
  ASSERT_EQ(::setresuid(0, 0, 0), 0);
  ASSERT_EQ(sent, 0);
  siginfo_t end{};
  EXPECT_TRUE(eventually(
      [&] {
        return ::waitid(P_PID, static_cast<id_t>(agent.pid()), &end, WEXITED | WNOHANG | WNOWAIT) ==
                   0 &&
               end.si_pid == agent.pid();
      },
      30s));
  EXPECT_EQ(end.si_code, CLD_EXITED);
  EXPECT_EQ(end.si_status, 0);
}

TEST_F(Server, ObeysNoSigtermFromInside) {
  SandboxOptions options;
  options.config.run_uid = 0;
  options.config.run_gid = 0;
  const SandboxedAgent agent(options);
  EXPECT_EQ(agent.exec("kill -TERM 1 && echo sent").output, "sent\n");
  expect_usable(agent);
  // Without room for a record the kernel makes one up: of kill(2), by pid 0.
  EXPECT_EQ(agent
                .exec("prlimit --pid 1 --sigpending=0:0 && python3 -c 'import ctypes, struct\n"
                      "info = struct.pack(\"iii\", 15, 0, -1) + bytes(116)\n"
                      "print(ctypes.CDLL(None).syscall(129, 1, 15, info))'")
                .output,
            "0\n");
  expect_usable(agent);
}

}  // namespace
}  // namespace daiv::agent::test
