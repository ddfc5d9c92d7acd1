#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "os/io.hpp"
#include "sandboxed_agent.hpp"

namespace daiv::agent::test {
namespace {

using namespace std::chrono_literals;

class Exec : public testing::TestWithParam<Grouping> {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  }
  static SandboxOptions options() {
    return {.image = Image::host, .grouping = GetParam(), .config = {}};
  }
};

std::string grouping_name(const testing::TestParamInfo<Grouping>& grouping) {
  return grouping.param == Grouping::cgroup ? "cgroup" : "proc";
}

INSTANTIATE_TEST_SUITE_P(Groupings, Exec, testing::Values(Grouping::cgroup, Grouping::none),
                         grouping_name);

void expect_result(const SandboxedAgent& agent, std::string_view command, std::string_view output,
                   int code) {
  SCOPED_TRACE(command.substr(0, 80));
  const auto result = agent.exec(command, 20s);
  EXPECT_EQ(result.output, output);
  EXPECT_EQ(result.done.outcome, ExecOutcome::exited) << result.done.message;
  EXPECT_EQ(result.done.code, code);
  EXPECT_EQ(result.done.output_bytes, output.size());
}

TEST_P(Exec, RunsCommandsAsTheDockerVariantDoes) {
  const SandboxedAgent agent(options());
  expect_result(agent, "echo one", "one\n", 0);
  expect_result(agent, "echo two >&2", "two\n", 0);
  expect_result(agent, "", "", 0);
  expect_result(agent, "# only a comment", "", 0);
  expect_result(agent, "exit 42", "", 42);
  expect_result(agent, "exit -1", "", 255);
  expect_result(agent, "no-such-command", "/bin/bash: line 1: no-such-command: command not found\n",
                127);
  expect_result(agent, "/tmp", "/bin/bash: line 1: /tmp: Is a directory\n", 126);
  expect_result(agent, "false | true", "", 1);
  expect_result(agent, "echo $0 $-; pwd; umask", "/bin/bash hBc\n/workspace/repo\n0022\n", 0);
  expect_result(agent, "cat; test -t 1 || echo no", "no\n", 0);
  expect_result(agent, "printf 'a\\0b'", std::string_view("a\0b", 3), 0);
  expect_result(agent, "id -u; id -g; id -G", "1000\n1000\n1000\n", 0);
  expect_result(agent, "echo again > /dev/stdout", "again\n", 0);
  expect_result(agent, "-x; echo $?", "/bin/bash: line 1: -x: command not found\n127\n", 0);
}

TEST_P(Exec, TellsASignalFromAStatus) {
  const SandboxedAgent agent(options());
  const auto result = agent.exec("kill -9 $$");
  EXPECT_EQ(result.done.outcome, ExecOutcome::signalled);
  EXPECT_EQ(result.done.code, SIGKILL);
}

TEST_P(Exec, ConfinesCommands) {
  const SandboxedAgent agent(options());
  expect_result(
      agent, "grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status",
      "Groups:\t "
      "\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
      "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n",
      0);
  expect_result(agent, "ulimit -c; cat /proc/self/oom_score_adj", "0\n500\n", 0);
  expect_result(agent, "ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 ", 0);
  expect_result(agent, "grep -E '^Sig(Blk|Ign)' /proc/self/status",
                "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", 0);
  expect_result(agent, "ls /proc/1/fd 2>&1 | cut -c1-40; env | sort | cut -d= -f1 | tr '\\n' ' '",
                "ls: cannot open directory '/proc/1/fd': \nHOME LANG PATH PWD SHLVL _ ", 0);
}

TEST_P(Exec, RunsCommandsOfAnySize) {
  const SandboxedAgent agent(options());
  for (const std::size_t size : {131071U, 131072U, 3000000U, 20000000U}) {
    const std::string padding(size - 30, 'x');
    expect_result(agent, "echo $0 $- $#; : '" + padding + "'", "/bin/bash hBc 0\n", 0);
  }
  const std::string long_comment =
      "nope; ls /proc/self/fd | tr '\\n' ' ' #" + std::string(200000, 'x');
  expect_result(agent, long_comment, "/bin/bash: line 1: nope: command not found\n0 1 2 3 ", 0);
}

TEST_P(Exec, RecreatesTheRepositoryFolder) {
  const SandboxedAgent agent(options());
  expect_result(agent, "rm -rf /workspace/repo", "", 0);
  expect_result(agent, "pwd; stat -c '%a %u:%g' .", "/workspace/repo\n755 1000:1000\n", 0);
  expect_result(agent, "rm -rf /workspace/repo; ln -s /etc /workspace/repo", "", 0);
  expect_result(agent, "pwd -P", "/workspace/repo\n", 0);
  expect_result(agent, "rm -rf /workspace/repo; echo > /workspace/repo", "", 0);
  expect_result(agent, "pwd -P", "/workspace/repo\n", 0);
}

TEST_P(Exec, AnswersWhileABackgroundChildHoldsTheOutput) {
  const SandboxedAgent agent(options());
  const auto result = agent.exec("sleep 300 & echo hi");
  EXPECT_EQ(result.output, "hi\n");
  EXPECT_LT(result.took, 400ms);
  const auto busy = agent.exec("(yes & ) ; echo done");
  EXPECT_EQ(busy.done.code, 0);
  EXPECT_LT(busy.took, 800ms);
  expect_result(agent, "pgrep -c sleep; pgrep -c yes", "1\n1\n", 0);
}

TEST_P(Exec, DeliversWhatAProcessSubstitutionStillWrites) {
  const SandboxedAgent agent(options());
  expect_result(agent, "echo late > >(cat)", "late\n", 0);
}

// Longer than the silence that ends an answer: whoever still computes is waited for, and whoever
// only sleeps is not, each up to the limit of the drain.
TEST_P(Exec, WaitsForAWriterThatIsAtWork) {
  const SandboxedAgent agent(options());
  const std::string at_work =
      "echo late > >(end=$((${EPOCHREALTIME/[.,]} + 60000)); "
      "while ((${EPOCHREALTIME/[.,]} < end)); do :; done; cat)";
  // A host that gives it no processor for the whole drain is possible, time after time is not.
  EXPECT_TRUE(eventually([&] { return agent.exec(at_work).output == "late\n"; }, 20s));
  EXPECT_EQ(agent.exec("echo late > >(sleep 5; cat)").output, "");
}

TEST_P(Exec, BackgroundWritersGetNoSigpipe) {
  const SandboxedAgent agent(options());
  expect_result(agent,
                "(for i in 1 2 3 4 5 6 7 8; do sleep 0.1; head -c 300000 /dev/zero || exit; done; "
                "echo > /tmp/all) &",
                "", 0);
  EXPECT_TRUE(eventually([&] { return agent.exec("test -e /tmp/all").done.code == 0; }, 5s));
}

TEST_P(Exec, TimeoutKillsTheWholeTreeBeforeItAnswers) {
  const SandboxedAgent agent(options());
  agent.exec("sleep 333 >/dev/null 2>&1 &");
  const auto result = agent.exec(
      "echo partial; sleep 600 & (setsid sleep 600 &) ; trap '' TERM INT; while :; do :; done",
      300ms);
  EXPECT_EQ(result.done.outcome, ExecOutcome::timed_out);
  EXPECT_EQ(result.output, "partial\n");
  EXPECT_LT(result.took, 1500ms);
  EXPECT_EQ(agent.processes(), 1U) << "the earlier command's background child stays";
  expect_result(agent, "pgrep -c -f '[s]leep 600'; pgrep -c -f '[s]leep 333'", "0\n1\n", 0);
}

TEST_P(Exec, AHugeTimeoutIsPracticallyNone) {
  const SandboxedAgent agent(options());
  for (const auto timeout :
       {std::chrono::milliseconds(100'000'000'000), std::chrono::milliseconds::max()}) {
    const auto result = agent.exec("sleep 0.1; echo done", timeout);
    EXPECT_EQ(result.output, "done\n");
    EXPECT_EQ(result.done.outcome, ExecOutcome::exited) << result.done.message;
  }
}

TEST_P(Exec, TimeoutEndsAForkBomb) {
  auto bounded = options();
  bounded.config.max_processes = 200;
  const SandboxedAgent agent(bounded);
  const auto result = agent.exec("b() { b | b & b; }; b 2>/dev/null", 1s);
  EXPECT_EQ(result.done.outcome, ExecOutcome::timed_out);
  EXPECT_LT(result.took, 4s);
  EXPECT_EQ(agent.processes(), 0U);
  expect_result(agent, "echo usable", "usable\n", 0);
}

TEST_P(Exec, TimeoutEndsAStoppedTree) {
  const SandboxedAgent agent(options());
  const auto result = agent.exec("sleep 50 & kill -STOP $!; kill -STOP $$", 200ms);
  EXPECT_EQ(result.done.outcome, ExecOutcome::timed_out);
  EXPECT_EQ(agent.processes(), 0U);
}

TEST_P(Exec, ADisconnectKillsTheCommand) {
  const SandboxedAgent agent(options());
  {
    auto connection = agent.connect();
    connection.send(RequestType::exec,
                    ExecRequest{"(setsid sleep 600 &); echo up; sleep 600", 0ms, 1000}.encode());
    EXPECT_EQ(connection.receive().payload, "up\n");
  }
  EXPECT_TRUE(eventually([&] { return agent.processes() == 0; }));
}

std::size_t resident_kb(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (file >> word)
    if (word == "VmRSS:") break;
  std::size_t kb = 0;
  file >> kb;
  return kb;
}

TEST_P(Exec, ABigOutputIsCountedInConstantMemory) {
  const SandboxedAgent agent(options());
  const auto result = agent.exec("head -c 2000000000 /dev/zero", 60s, 1000);
  EXPECT_EQ(result.output.size(), 1000U);
  EXPECT_EQ(result.done.output_bytes, 2000000000U);
  EXPECT_LT(resident_kb(agent.pid()), 6000U);
}

TEST_P(Exec, ASlowFrontGetsEverything) {
  const SandboxedAgent agent(options());
  auto connection = agent.connect();
  connection.send(RequestType::exec,
                  ExecRequest{"seq 1 200000; sleep 0.1; seq 1 200000 >&2", 0ms, 1U << 30}.encode());
  ::usleep(600000);  // the front stalls: this is the behaviour under test, not a synchronisation
  const auto result = SandboxedAgent::finish_exec(connection);
  EXPECT_EQ(result.output.size(), 2U * 1288895U);
  EXPECT_EQ(result.output.substr(result.output.size() - 7), "200000\n");
}

TEST_P(Exec, ReapsOrphans) {
  const SandboxedAgent agent(options());
  expect_result(agent, "for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; (setsid true &)", "", 0);
  EXPECT_TRUE(
      eventually([&] { return agent.exec("ls /proc | grep -c '^[0-9]'").output <= "4\n"; }));
}

TEST_P(Exec, TerminateLeavesNobody) {
  const SandboxedAgent agent(options());
  agent.exec("(trap '' TERM; setsid sleep 600) >/dev/null 2>&1 & sleep 600 &");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(agent.terminate(200ms).type, AnswerType::done);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  EXPECT_EQ(agent.processes(), 0U);
  EXPECT_THROW(agent.exec("true"), std::runtime_error);
}

TEST_P(Exec, TerminateOfAnIdleSandboxIsImmediate) {
  const SandboxedAgent agent(options());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(agent.terminate(10s).type, AnswerType::done);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 50ms);
}

std::chrono::microseconds median_of(std::vector<std::chrono::microseconds> times) {
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

template <typename Call>
std::chrono::microseconds time_of(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               begin);
}

void spawn_plain() {
  std::array<std::string, 5> words = {"/bin/bash", "-o", "pipefail", "-c", "true"};
  std::array<char*, 6> argv{};
  std::ranges::transform(words, argv.begin(), [](std::string& word) { return word.data(); });
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  ::waitpid(pid, nullptr, 0);
}

// Prints only: the target, 1.3 times, is for the benchmarks to judge.
TEST(ExecSpeed, IsPrintedBesideAPlainSpawn) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const SandboxedAgent agent;
  std::vector<std::chrono::microseconds> through_agent;
  std::vector<std::chrono::microseconds> plain;
  for (int round = 0; round < 100; ++round) {
    through_agent.push_back(time_of([&] { agent.exec("true"); }));
    plain.push_back(time_of(spawn_plain));
  }
  const auto agent_time = median_of(through_agent);
  const auto plain_time = median_of(plain);
  std::printf("ready in %ld us, true: %ld us, plain spawn: %ld us\n", agent.started_in().count(),
              agent_time.count(), plain_time.count());
}

std::size_t private_dirty_kb(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::string word;
  while (file >> word)
    if (word == "Private_Dirty:") break;
  std::size_t kb = 0;
  file >> kb;
  return kb;
}

TEST(ExecSpeed, AnIdleAgentIsSmall) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const SandboxedAgent agent;
  const auto fresh = private_dirty_kb(agent.pid());
  agent.exec("true");
  std::printf("private dirty: %zu kB, after a command %zu kB\n", fresh,
              private_dirty_kb(agent.pid()));
  EXPECT_GT(fresh, 0U);
  EXPECT_LT(private_dirty_kb(agent.pid()), 700U);
}

TEST(ExecShells, BusyboxTakesPipefail) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const SandboxedAgent agent({.image = Image::busybox, .grouping = Grouping::cgroup, .config = {}});
  expect_result(agent, "echo $0", "/bin/sh\n", 0);
  expect_result(agent, "false | true", "", 1);
  expect_result(agent, "no-such-command", "/bin/sh: no-such-command: not found\n", 127);
  expect_result(agent, "-x", "/bin/sh: -x: not found\n", 127);
  expect_result(agent, "echo $#; : '" + std::string(300000, 'x') + "'", "0\n", 0);
  EXPECT_EQ(agent.status().shell, "/bin/sh");
  EXPECT_TRUE(agent.status().pipefail);
}

TEST(ExecShells, AnImageWithoutShellIsToldSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const SandboxedAgent agent(
      {.image = Image::no_shell, .grouping = Grouping::cgroup, .config = {}});
  const auto result = agent.exec("echo hi");
  EXPECT_EQ(result.done.outcome, ExecOutcome::cannot_start);
  EXPECT_EQ(result.done.message, "no shell in the image");
}

}  // namespace
}  // namespace daiv::agent::test
