#include "cli/egress_log.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <thread>

#include "cli/egress_plan.hpp"

namespace daiv::cli {
namespace {

using std::chrono::milliseconds;

proxy::Decision decision(const std::string& session, const std::string& host) {
  proxy::Decision made;
  made.session = session;
  made.host = host;
  made.method = "GET";
  return made;
}

std::vector<std::string> hosts(const std::vector<EgressLog::Entry>& entries) {
  std::vector<std::string> found;
  for (const auto& entry : entries) found.push_back(entry.decision.host);
  return found;
}

TEST(EgressLog, GivesASessionItsOwnEntriesOnce) {
  EgressLog log;
  log.record(decision("a", "one"));
  log.record(decision("b", "other"));
  log.record(decision("a", "two"));
  const auto entries = log.read("a", 0, {});
  EXPECT_EQ(hosts(entries), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(log.read("a", entries.back().number, {}).empty());
  EXPECT_TRUE(log.read("c", 0, {}).empty());
}

TEST(EgressLog, WakesAReaderThatWaits) {
  EgressLog log;
  std::vector<EgressLog::Entry> entries;
  std::thread reader([&] { entries = log.read("a", 0, std::chrono::minutes(5)); });
  log.record(decision("b", "other"));
  log.record(decision("a", "one"));
  reader.join();
  EXPECT_EQ(hosts(entries), std::vector<std::string>{"one"});
}

TEST(EgressLog, KeepsTheLastOfASession) {
  EgressLog log;
  for (std::size_t number = 0; number < EgressLog::max_of_session + 7; ++number)
    log.record(decision("a", std::to_string(number)));
  const auto entries = log.read("a", 0, {});
  EXPECT_EQ(entries.size(), EgressLog::max_of_session);
  EXPECT_EQ(entries.front().decision.host, "7");
}

TEST(EgressLog, CutsWhatASandboxMadeLong) {
  auto made = decision("a", std::string(5000, 'h'));
  made.method = std::string(250'000, 'M');
  EXPECT_LT(describe(made).size(), 4096U);
  EgressLog log;
  log.record(made);
  EXPECT_EQ(log.read("a", 0, {}).front().decision.method.size(), EgressLog::max_text_bytes);
}

TEST(EgressLog, ForgetsTheSessionThatWasQuietForLongest) {
  EgressLog log;
  const std::size_t sessions = EgressLog::max_of_all / EgressLog::max_of_session;
  for (std::size_t session = 0; session < sessions; ++session)
    for (std::size_t number = 0; number < EgressLog::max_of_session; ++number)
      log.record(decision(std::to_string(session), "host"));
  log.record(decision("0", "again"));  // the last of session 0 is newer than those of session 1
  log.record(decision("new", "host"));
  EXPECT_FALSE(log.read("0", 0, {}).empty());
  EXPECT_FALSE(log.read("new", 0, {}).empty());
  EXPECT_TRUE(log.read("1", 0, {}).empty());
}

TEST(EgressLog, ShowsATerminalNothingButText) {
  EgressLog log;
  log.record(decision("a", "\x1b[2J\xff\"" + std::string(10000, 'x')));
  const auto entries = log.read("a", 0, {});
  const std::string host = describe(entries.front()).at("host");
  EXPECT_EQ(host.substr(0, 7), "?[2J?\"x");
  EXPECT_EQ(host.size(), EgressLog::max_text_bytes);
  EXPECT_NE(describe(entries.front().decision).find("host=\"?[2J??xx"), std::string::npos);
}

}  // namespace
}  // namespace daiv::cli
