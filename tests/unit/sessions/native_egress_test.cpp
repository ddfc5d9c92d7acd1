#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "native_sessions_rig.hpp"

namespace fs = std::filesystem;

namespace daiv::sessions {
namespace {

// The proxy, as sessions see it.
class FakeGate : public EgressGate {
public:
  void open(const std::string& session, std::vector<os::UniqueFd> sockets,
            const EgressPolicy& policy) override {
    EXPECT_EQ(sockets.size(), 1U);
    served[session] = policy;
  }
  bool update(const std::string& session, const EgressPolicy& policy) override {
    if (!serves(session)) return false;
    served[session] = policy;
    return true;
  }
  void close(const std::string& session) override { served.erase(session); }
  [[nodiscard]] bool serves(const std::string& session) const override {
    return served.contains(session);
  }
  [[nodiscard]] agent::Trust trust() const override {
    return {"certificate", "01234567", {}, "roots"};
  }

  std::map<std::string, EgressPolicy> served;
};

EgressPolicy policy_for(const std::string& host) {
  EgressPolicy policy;
  policy.rules = {{host, {}, std::nullopt}};
  return policy;
}

struct EgressSessions : NativeSessionsTest {
  EgressSessions() {
    stop();
    fs::create_directory(directory + "/egress");
    settings.store.egress.gate = &gate;
    settings.store.egress.port = 8080;
    settings.store.egress.directory = directory + "/egress";
    settings.store.egress.plan_link = [](std::uint32_t uid_base) {
      return runtime::EgressLink{uid_base, uid_base + 1, 0};
    };
    start();
  }
  std::string create_with(EgressPolicy policy) {
    CreateOptions options;
    options.base_image = "x";
    options.egress = std::move(policy);
    return run_to_end(io, sessions->create(std::move(options)));
  }
  EgressUpdate update(const std::string& id, EgressPolicy policy) {
    return run_to_end(io, sessions->update_egress(id, std::move(policy)));
  }
  FakeGate gate;
};

TEST_F(EgressSessions, AreServedWhenTheCallReturns) {
  const std::string id = create_with(policy_for("a.test"));
  EXPECT_EQ(gate.served.at(id), policy_for("a.test"));
  const auto& request = host->last_spec.request;
  EXPECT_EQ(request.egress, (runtime::EgressLink{request.uid_base, request.uid_base + 1, 8080}));
  const auto config = agent::Config::decode(host->last_spec.agent_config);
  EXPECT_EQ(config.trust.certificate, "certificate");
  EXPECT_EQ(std::ranges::count_if(config.environment,
                                  [](const auto& line) { return line.starts_with("HTTP_PROXY="); }),
            1);
}

TEST_F(EgressSessions, WithoutABlockHaveNoNetwork) {
  const std::string id = create();
  EXPECT_FALSE(host->last_spec.request.egress);
  EXPECT_TRUE(gate.served.empty());
  EXPECT_EQ(update(id, policy_for("a.test")), EgressUpdate::no_egress);
}

TEST_F(EgressSessions, TakeANewPolicyWhileRunningAndWhileStopped) {
  const std::string id = create_with(policy_for("a.test"));
  EXPECT_EQ(update(id, policy_for("b.test")), EgressUpdate::done);
  EXPECT_EQ(gate.served.at(id), policy_for("b.test"));
  run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  EXPECT_FALSE(gate.serves(id));
  EXPECT_EQ(update(id, policy_for("c.test")), EgressUpdate::done);
  run(id, {"true"});
  EXPECT_EQ(gate.served.at(id), policy_for("c.test"));
  EXPECT_EQ(failure_of([&] { update("none", {}); }), SessionFailure::not_found);
}

TEST_F(EgressSessions, KeepTheirPolicyOverARestart) {
  const std::string id = create_with(policy_for("a.test"));
  update(id, policy_for("b.test"));
  stop();
  gate.served.clear();
  start();
  EXPECT_EQ(host->adoptions, 1);
  EXPECT_EQ(gate.served.at(id), policy_for("b.test"));
}

TEST_F(EgressSessions, DenyEverythingWhereTheirPolicyIsLost) {
  const std::string id = create_with(policy_for("a.test"));
  stop();
  fs::remove(directory + "/egress/" + id);
  start();
  EXPECT_EQ(gate.served.at(id), EgressPolicy{});
}

TEST_F(EgressSessions, WithoutTheirProxyAnswerThatARetryMayHelp) {
  const std::string id = create_with(policy_for("a.test"));
  gate.served.clear();
  EXPECT_EQ(failure_of([&] { run(id, {"true"}); }), SessionFailure::unavailable);
  EXPECT_EQ(update(id, policy_for("b.test")), EgressUpdate::not_served);
}

TEST_F(EgressSessions, LeaveNoPolicyBehind) {
  const std::string id = create_with(policy_for("a.test"));
  host->fail_next = runtime::Failure::internal;
  EXPECT_THROW(create_with(policy_for("b.test")), HostError);
  run_to_end(io, sessions->close(id, CloseMode::remove));
  EXPECT_TRUE(fs::is_empty(directory + "/egress"));
  EXPECT_TRUE(gate.served.empty());
}

TEST_F(NativeSessionsTest, EgressWithoutAProxyIsTheClientsMistake) {
  CreateOptions options;
  options.base_image = "x";
  options.egress = EgressPolicy{};
  EXPECT_EQ(failure_of([&] { run_to_end(io, sessions->create(options)); }),
            SessionFailure::bad_request);
}

}  // namespace
}  // namespace daiv::sessions
