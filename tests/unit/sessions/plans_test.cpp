#include <gtest/gtest.h>

#include <algorithm>

#include "sessions/command_ending.hpp"
#include "sessions/environment.hpp"
#include "sessions/reaper_plan.hpp"
#include "sessions/reconciliation.hpp"
#include "sessions/uid_ranges.hpp"

namespace daiv::sessions {
namespace {

using namespace std::chrono_literals;

// ---- command endings
// -------------------------------------------------------------------------------------------------

struct EndingCase {
  const char* name;
  agent::ExecDone done;
  KeptOutput kept;
  int exit_code;
  std::string appended;
  Rest rest;
};

agent::ExecDone done_with(agent::ExecOutcome outcome, std::int32_t code, std::uint64_t bytes = 0,
                          std::string message = {}) {
  return {outcome, code, bytes, std::move(message)};
}

TEST(CommandEnding, MapsEachOutcomeAsAShellWould) {
  using enum agent::ExecOutcome;
  const std::vector<EndingCase> cases{
      {"exit", done_with(exited, 42), {}, 42, "", Rest::run},
      {"signal", done_with(signalled, 9), {}, 137, "", Rest::run},
      {"own 124", done_with(exited, 124), {}, 124, "", Rest::run},
      {"timeout, silent",
       done_with(timed_out, 0),
       {},
       124,
       "Command timed out after 7s",
       Rest::skip},
      {"timeout after a line",
       done_with(timed_out, 0, 8),
       {8, '\n'},
       124,
       "Command timed out after 7s",
       Rest::skip},
      {"timeout in a line",
       done_with(timed_out, 0, 7),
       {7, 'l'},
       124,
       "\nCommand timed out after 7s",
       Rest::skip},
      {"no shell",
       done_with(cannot_start, 0, 0, "no shell in the image"),
       {},
       127,
       "no shell in the image\n",
       Rest::run},
      {"out of memory",
       done_with(out_of_memory, 9, 3),
       {3, 'x'},
       137,
       "\nCommand killed: out of memory (the session's memory limit is 1048576 bytes)\n",
       Rest::run},
      {"cut",
       done_with(exited, 0, 100),
       {10, 'x'},
       0,
       "\n[output cut: the first 10 of 100 bytes are shown]\n",
       Rest::run},
      {"cut and timeout",
       done_with(timed_out, 0, 100),
       {10, '\n'},
       124,
       "[output cut: the first 10 of 100 bytes are shown]\nCommand timed out after 7s",
       Rest::skip},
      {"hostile numbers", done_with(signalled, 100000), {}, 255, "", Rest::run},
      {"hostile status", done_with(exited, -5), {}, 0, "", Rest::run},
  };
  for (const auto& one : cases) {
    const CommandEnding ending =
        plan_ending(one.done, one.kept, {.timeout = 7s, .memory_bytes = 1U << 20});
    EXPECT_EQ(ending.exit_code, one.exit_code) << one.name;
    EXPECT_EQ(ending.appended, one.appended) << one.name;
    EXPECT_EQ(ending.rest, one.rest) << one.name;
  }
}

// ---- environment
// -----------------------------------------------------------------------------------------------------

bool has(const std::vector<std::string>& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

TEST(Environment, RequestGoesOverTheImageAndNothingOverTheHome) {
  const auto lines = plan_environment(
      {"PATH=/image", "LANG=C", "BROKEN", "=x", "HOME=/image"},
      {{"LANG", "de"}, {"HOME", "/tmp"}, {"XDG_CACHE_HOME", "/tmp"}, {"EMPTY", ""}});
  EXPECT_TRUE(has(lines, "PATH=/image"));
  EXPECT_TRUE(has(lines, "LANG=de"));
  EXPECT_TRUE(has(lines, "EMPTY="));
  EXPECT_TRUE(has(lines, "HOME=/home/daiv-sandbox"));
  EXPECT_TRUE(has(lines, "XDG_CACHE_HOME=/home/daiv-sandbox/.cache"));
  EXPECT_EQ(lines.size(), 8U);
}

TEST(Environment, HasAPathWhereTheImageHasNone) {
  EXPECT_TRUE(has(plan_environment({}, {}),
                  "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
}

TEST(Environment, RefusesWhatExecCannotTake) {
  EXPECT_FALSE(find_environment_fault({{"A", "b"}, {"C", ""}}));
  EXPECT_TRUE(find_environment_fault({{"", "b"}}));
  EXPECT_TRUE(find_environment_fault({{"A=B", "b"}}));
  EXPECT_TRUE(find_environment_fault({{std::string("A\0B", 3), "b"}}));
  EXPECT_TRUE(find_environment_fault({{"A", std::string("a\0b", 3)}}));
  EXPECT_FALSE(find_environment_fault({{"A", std::string(max_variable_bytes - 2, 'x')}}));
  EXPECT_TRUE(find_environment_fault({{"A", std::string(max_variable_bytes - 1, 'x')}}));
  EXPECT_TRUE(find_environment_fault(Environment(9, {"A", std::string(128000, 'x')})));
}

TEST(Environment, NeverShowsAValue) {
  const auto fault = find_environment_fault({{"TOKEN", std::string("secret\0", 7)}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->find("secret"), std::string::npos);
}

// ---- uid ranges
// ------------------------------------------------------------------------------------------------------

TEST(UidRanges, NeverGivesTheLayersRangeNorOneTwice) {
  UidRanges ranges(1000 * uids_per_range, 3);
  EXPECT_EQ(ranges.take(), 1001 * uids_per_range);
  EXPECT_EQ(ranges.take(), 1002 * uids_per_range);
  EXPECT_EQ(ranges.take(), std::nullopt);
  ranges.give_back(1000 * uids_per_range);
  EXPECT_EQ(ranges.take(), std::nullopt) << "the layers' range is not ours to give";
}

TEST(UidRanges, ReusesARangeAsLateAsPossible) {
  UidRanges ranges(0, 4);
  const auto first = ranges.take();
  ranges.give_back(*first);
  EXPECT_NE(ranges.take(), first);
}

TEST(UidRanges, ClaimsKnownRangesOnce) {
  UidRanges ranges(uids_per_range, 3);
  EXPECT_TRUE(ranges.claim(2 * uids_per_range));
  EXPECT_FALSE(ranges.claim(2 * uids_per_range));
  EXPECT_FALSE(ranges.claim(uids_per_range)) << "the layers' range";
  EXPECT_FALSE(ranges.claim(2 * uids_per_range + 1));
  EXPECT_FALSE(ranges.claim(100 * uids_per_range));
}

// ---- reaper
// ----------------------------------------------------------------------------------------------------------

const Time now = Time(100000s);

SessionRecord record_of(std::string id, SessionState state, std::chrono::seconds age) {
  SessionRecord record;
  record.id = std::move(id);
  record.state = state;
  record.last_used = record.stopped = now - age;
  return record;
}

std::vector<std::string> reaped(const std::vector<SessionRecord>& records,
                                const ReaperSettings& settings, const std::string& in_flight = "") {
  std::vector<ReaperView> views;
  for (const auto& record : records) {
    views.push_back({&record, record.id == in_flight ? Activity::in_flight : Activity::idle});
  }
  std::vector<std::string> ids;
  for (const auto& removal : plan_reaping(views, settings, now)) ids.push_back(removal.id);
  return ids;
}

TEST(ReaperPlan, RemovesWhatIsStoppedForLongerThanTheGrace) {
  const ReaperSettings settings{100s, 50, 1000s};
  EXPECT_EQ(reaped({record_of("young", SessionState::stopped, 100s),
                    record_of("old", SessionState::stopped, 101s)},
                   settings),
            std::vector<std::string>{"old"});
}

TEST(ReaperPlan, RemovesTheLeastRecentlyUsedAboveTheCap) {
  const ReaperSettings settings{1000s, 1, 1000s};
  EXPECT_EQ(
      reaped(
          {record_of("b", SessionState::stopped, 20s), record_of("c", SessionState::stopped, 10s),
           record_of("a", SessionState::stopped, 30s), record_of("r", SessionState::running, 40s)},
          settings),
      (std::vector<std::string>{"a", "b"}));
}

TEST(ReaperPlan, RemovesRunningSessionsThatNobodyUses) {
  const std::vector<SessionRecord> records{record_of("idle", SessionState::running, 501s),
                                           record_of("used", SessionState::running, 500s)};
  EXPECT_EQ(reaped(records, {100s, 50, 500s}), std::vector<std::string>{"idle"});
  EXPECT_TRUE(reaped(records, {100s, 50, 0s}).empty()) << "0 disables";
}

TEST(ReaperPlan, NeverRemovesASessionWithAnOperationInFlight) {
  const ReaperSettings settings{100s, 0, 100s};
  EXPECT_TRUE(reaped({record_of("a", SessionState::running, 1000s)}, settings, "a").empty());
  EXPECT_TRUE(reaped({record_of("a", SessionState::stopped, 1000s)}, settings, "a").empty());
}

// ---- reconciliation
// --------------------------------------------------------------------------------------------------

TEST(Reconciliation, SaysWhatToDoWithEachDifference) {
  const std::vector<SessionRecord> records{
      record_of("runs", SessionState::running, 0s), record_of("died", SessionState::running, 0s),
      record_of("stopped", SessionState::stopped, 0s), record_of("lost", SessionState::stopped, 0s),
      record_of("closing", SessionState::stopped, 0s)};
  const std::vector<runtime::SandboxEntry> host{{"runs", true, true},     {"died", false, true},
                                                {"stopped", false, true}, {"orphan", true, true},
                                                {"rest", false, true},    {"closing", true, true}};
  const Reconciliation plan = plan_reconciliation(records, host);
  EXPECT_EQ(plan.adopt, std::vector<std::string>{"runs"});
  EXPECT_EQ(plan.mark_stopped, (std::vector<std::string>{"died", "closing"}));
  EXPECT_EQ(plan.forget, std::vector<std::string>{"lost"});
  EXPECT_EQ(plan.remove_from_host, (std::vector<std::string>{"orphan", "rest"}));
}

}  // namespace
}  // namespace daiv::sessions
