#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <future>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "broker_rig.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::runtime::test {
namespace {

class Broker : public testing::Test {
protected:
  void SetUp() override { DAIV_REQUIRE_ROOT(); }
};

#ifdef DAIV_ATTACK_SWITCHES
constexpr bool attack_build = true;
#else
constexpr bool attack_build = false;
#endif

Failure failure_of(const Reply& reply) { return std::get<Failed>(reply.answer).kind; }

Reply unpack(BrokerRig& rig, const std::string& layer, const std::string& input,
             const std::string& diff_id = "", const std::vector<std::string>& parents = {}) {
  os::Pipe pipe = os::make_pipe();
  os::write_full(pipe.write_end, input);
  pipe.write_end.reset();
  return rig.call(UnpackLayer{layer, diff_id, 1000, 10, parents}, {pipe.read_end.get()});
}

std::vector<std::string> layers_of(BrokerRig& rig) {
  return std::get<Layers>(rig.call(ListLayers{}).answer).layers;
}

TEST_F(Broker, TakesInALayerThatItsUnpackerMade) {
  BrokerRig rig;
  const Reply reply = unpack(rig, "aaaaaa", "ok");
  ASSERT_TRUE(std::holds_alternative<Unpacked>(reply.answer)) << failure_text(reply);
  EXPECT_EQ(layers_of(rig), std::vector<std::string>{"aaaaaa"});
  const std::string made = rig.state() + "/layers/aaaaaa/made";
  EXPECT_EQ(os::read_file(made, 1000), "1 0 --max-bytes=1000 --max-entries=10 012345");
  struct stat status{};
  ASSERT_EQ(::stat(made.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, uid_start);
  EXPECT_EQ(failure_of(unpack(rig, "aaaaaa", "ok")), Failure::invalid);
}

TEST_F(Broker, KeepsNothingOfALayerThatFails) {
  BrokerRig rig;
  EXPECT_EQ(failure_of(unpack(rig, "aaaaaa", "corrupt")), Failure::corrupt_layer);
  EXPECT_EQ(failure_of(unpack(rig, "aaaaab", "die")), Failure::internal);
  EXPECT_EQ(failure_of(unpack(rig, "aaaaac", "ok", "sha256:" + std::string(64, '2'))),
            Failure::corrupt_layer);
  EXPECT_TRUE(layers_of(rig).empty());
  for (const auto& entry : std::filesystem::directory_iterator(rig.state() + "/layers"))
    ADD_FAILURE() << entry.path() << " is left";
}

TEST_F(Broker, ShowsTheUnpackerTheLayersBelowAsOneClosedTree) {
  BrokerRig rig;
  std::vector<std::string> parents;
  for (const char* name : {"aaaaaa", "aaaaab", "aaaaac"}) {
    const Reply reply = unpack(rig, name, "ok", "", parents);
    ASSERT_TRUE(std::holds_alternative<Unpacked>(reply.answer)) << failure_text(reply);
    const std::string made = os::read_file(rig.state() + "/layers/" + name + "/made", 1000);
    const char* expected =
        "1 0 --max-bytes=1000 --max-entries=10 --parents 0123456 readable closed 0";
    if (!parents.empty()) {
      EXPECT_EQ(made, expected) << name;
    }
    parents.emplace_back(name);
  }
  EXPECT_EQ(failure_of(unpack(rig, "aaaaad", "ok", "", {"zzzzzz"})), Failure::not_found);
}

TEST_F(Broker, ReportsWhatALayerSaysOfThoseBelow) {
  BrokerRig rig;
  const Reply opaque = unpack(rig, "aaaaaa", "opaque");
  EXPECT_TRUE(std::get<Unpacked>(opaque.answer).hides_below);
  const Reply needy = unpack(rig, "aaaaab", "needs parents");
  EXPECT_TRUE(std::get<Unpacked>(needy.answer).needs_parents);
  EXPECT_EQ(layers_of(rig), std::vector<std::string>{"aaaaaa"});
}

TEST_F(Broker, RemovesLayers) {
  BrokerRig rig;
  unpack(rig, "aaaaaa", "ok");
  unpack(rig, "aaaaab", "ok");
  rig.call(RemoveLayers{{"aaaaaa", "zzzzzz"}});
  EXPECT_EQ(layers_of(rig), std::vector<std::string>{"aaaaab"});
}

TEST_F(Broker, TrustsNoLayerThatWasWrittenBeforeAPowerCut) {
  BrokerRig rig;
  const std::string safe = rig.add_layer();
  const std::string spoiled = rig.add_layer();
  {
    os::write_full(
        os::open_file(rig.state() + "/layers/.pending-" + spoiled, O_WRONLY | O_CREAT, 0600),
        "another boot");
  }
  std::filesystem::create_directory(rig.state() + "/layers/.tmp-aaaaaa");
  rig.restart();
  EXPECT_EQ(layers_of(rig), std::vector<std::string>{safe});
  EXPECT_FALSE(std::filesystem::exists(rig.state() + "/layers/.tmp-aaaaaa"));
}

TEST_F(Broker, AStuckOperationStopsNoOther) {
  BrokerRig rig;
  layers_of(rig);
  os::Pipe pipe = os::make_pipe();  // an unpacker that waits for its input
  auto stuck = std::async(std::launch::async, [&] {
    return rig.call(UnpackLayer{"aaaaaa", "", 1, 1}, {pipe.read_end.get()});
  });
  const CreateSandbox request = rig.request();
  const os::UniqueFd pidfd = rig.create(request);
  rig.call(RemoveSandbox{request.session});
  EXPECT_EQ(stuck.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  os::write_full(pipe.write_end, "ok");
  pipe.write_end.reset();
  EXPECT_TRUE(std::holds_alternative<Unpacked>(stuck.get().answer));
}

TEST_F(Broker, OperationsOnOneSessionAreInOrder) {
  BrokerRig rig;
  const CreateSandbox request = rig.request();
  for (int round = 0; round < 10; ++round) {
    auto creation = std::async(std::launch::async, [&] { return rig.try_create(request); });
    auto removal =
        std::async(std::launch::async, [&] { return rig.call(RemoveSandbox{request.session}); });
    creation.get();
    EXPECT_TRUE(std::holds_alternative<Done>(removal.get().answer));
    rig.call(RemoveSandbox{request.session});
    EXPECT_TRUE(std::get<runtime::Inventory>(rig.call(ListSandboxes{}).answer).sandboxes.empty());
  }
}

// Kills the operation's process, which is the broker's only child while it waits.
TEST_F(Broker, AnOperationThatDiesIsAnswered) {
  BrokerRig rig;
  layers_of(rig);
  os::Pipe pipe = os::make_pipe();
  auto answer = std::async(std::launch::async, [&] {
    return rig.call(UnpackLayer{"aaaaaa", "", 1, 1}, {pipe.read_end.get()});
  });
  const std::string children = fmt::format("/proc/{0}/task/{0}/children", rig.broker_pid());
  const std::string temporary = rig.state() + "/layers/.tmp-aaaaaa";
  while (!std::filesystem::exists(temporary)) std::this_thread::yield();
  // The operation is one of them; the broker's housekeeping may be another.
  std::istringstream pids(os::read_file(children, 1000));
  for (pid_t child = 0; pids >> child;) EXPECT_EQ(::kill(child, SIGKILL), 0);
  const Reply reply = answer.get();
  EXPECT_EQ(failure_of(reply), Failure::internal);
  EXPECT_NE(failure_text(reply).find("signal 9"), std::string::npos) << failure_text(reply);
}

TEST_F(Broker, DeletesWhatWasRemovedThoughItIsNeverIdle) {
  DAIV_REQUIRE_ROOT();
  BrokerRig rig;
  os::Pipe pipe = os::make_pipe();
  auto endless = std::async(std::launch::async, [&] {
    return rig.call(UnpackLayer{"aaaaaa", "", 1, 1}, {pipe.read_end.get()});
  });
  while (!std::filesystem::exists(rig.state() + "/layers/.tmp-aaaaaa")) std::this_thread::yield();
  const CreateSandbox request = rig.request({rig.add_layer()});
  rig.create(request);
  EXPECT_EQ(failure_text(rig.call(RemoveSandbox{request.session})), "");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!std::filesystem::is_empty(rig.state() + "/trash")) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // nothing tells of it
  }
  EXPECT_EQ(endless.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  pipe.write_end.reset();
  endless.get();
}

std::set<pid_t> children_of(pid_t pid) {
  std::istringstream pids(os::read_file(fmt::format("/proc/{0}/task/{0}/children", pid), 1000));
  return {std::istream_iterator<pid_t>(pids), {}};
}

// With no layer unpacked and nothing removed there is no housekeeping after the first.
std::set<pid_t> wait_for_children(const BrokerRig& rig, std::size_t count) {
  std::set<pid_t> children = children_of(rig.broker_pid());
  while (children.size() != count) {
    std::this_thread::yield();
    children = children_of(rig.broker_pid());
  }
  return children;
}

TEST_F(Broker, AProcessThatDidItsOperationWellDoesTheNext) {
  BrokerRig rig;
  rig.call(ListSandboxes{});
  const auto first = wait_for_children(rig, 1);
  for (int round = 0; round < 5; ++round) rig.call(ListSandboxes{});
  EXPECT_EQ(wait_for_children(rig, 1), first);
}

TEST_F(Broker, AProcessWhoseOperationFailedDoesNoOther) {
  BrokerRig rig;
  rig.call(ListSandboxes{});
  wait_for_children(rig, 1);
  EXPECT_EQ(failure_of(rig.call(AdoptSandbox{rig.request().session})), Failure::not_found);
  wait_for_children(rig, 0);
  EXPECT_TRUE(std::holds_alternative<runtime::Inventory>(rig.call(ListSandboxes{}).answer));
}

TEST_F(Broker, AnIdleProcessThatDiesIsReplaced) {
  BrokerRig rig;
  for (int round = 0; round < 5; ++round) {
    rig.call(ListSandboxes{});
    for (const pid_t child : wait_for_children(rig, 1)) EXPECT_EQ(::kill(child, SIGKILL), 0);
    wait_for_children(rig, 0);
    EXPECT_TRUE(std::holds_alternative<runtime::Inventory>(rig.call(ListSandboxes{}).answer));
  }
}

TEST_F(Broker, SaysThatACredentialHelperIsMissing) {
  BrokerRig rig;
  EXPECT_EQ(failure_of(rig.call(RunCredentialHelper{"no-such-helper", "registry.example"})),
            Failure::not_found);
}

// Defences can be switched off in test builds alone.
TEST_F(Broker, KnowsNoAttackSwitchesInANormalBuild) {
  const std::string program = os::read_file(BROKER_PROGRAM, 256U << 20);
  EXPECT_EQ(program.find("DAIV_SANDBOX_ATTACK_WITHOUT") != std::string::npos, attack_build);
}

TEST_F(Broker, CreatesManyAtOnce) {
  BrokerRig rig;
  const std::string layer = rig.add_layer();
  std::vector<CreateSandbox> requests;
  std::vector<std::future<Reply>> replies;
  for (int index = 0; index < 40; ++index) requests.push_back(rig.request({layer}));
  for (const CreateSandbox& request : requests)
    replies.push_back(std::async(std::launch::async, [&] { return rig.try_create(request); }));
  for (auto& reply : replies) {
    const Reply result = reply.get();
    EXPECT_TRUE(std::holds_alternative<Created>(result.answer)) << failure_text(result);
  }
  for (const CreateSandbox& request : requests) rig.call(RemoveSandbox{request.session});
}

}  // namespace
}  // namespace daiv::runtime::test
