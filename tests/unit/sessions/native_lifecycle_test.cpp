#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "native_sessions_rig.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

using namespace std::chrono_literals;

TEST_F(NativeSessionsTest, AClosedSessionIsStartedByTheNextOperation) {
  const std::string id = create();
  run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  EXPECT_EQ(host->running(), 0U);
  EXPECT_EQ(sessions->counts().stopped, 1U);
  EXPECT_TRUE(run_to_end(io, sessions->touch(id)));
  EXPECT_EQ(host->running(), 1U);
  run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  EXPECT_EQ(run_to_end(io, sessions->fs(id, "request")), "request");
  EXPECT_EQ(host->creations, 3);
  EXPECT_EQ(host->last_spec.request.uid_base, first_test_uid + 65536)
      << "its files belong to this range";
}

TEST_F(NativeSessionsTest, ARemovedSessionIsGone) {
  const std::string id = create();
  run_to_end(io, sessions->close(id, CloseMode::remove));
  run_to_end(io, sessions->close(id, CloseMode::remove));
  EXPECT_FALSE(run_to_end(io, sessions->touch(id)));
  EXPECT_EQ(failure_of([&] { run(id, {"true"}); }), SessionFailure::not_found);
  EXPECT_TRUE(host->layers_on_disk.empty());
  EXPECT_TRUE(sessions->layers_in_use().empty());
}

TEST_F(NativeSessionsTest, ARemovalThatFailsIsTriedAgain) {
  const std::string id = create();
  host->failing_removals = 1;
  run_to_end(io, sessions->close(id, CloseMode::remove));
  EXPECT_TRUE(host->layers_on_disk.empty());
  EXPECT_TRUE(sessions->layers_in_use().empty());
}

TEST_F(NativeSessionsTest, WhatARemovalLeftIsRemovedAtTheEndOfTheDaemon) {
  const std::string id = create();
  host->failing_removals = 2;
  EXPECT_THROW(run_to_end(io, sessions->close(id, CloseMode::remove)), std::exception);
  EXPECT_TRUE(host->layers_on_disk.contains(id));
  stop();
  EXPECT_TRUE(host->layers_on_disk.empty());
  start();
}

TEST_F(NativeSessionsTest, IsSeededOnceAndOnlyBySuccess) {
  const std::string id = create();
  EXPECT_EQ(failure_of([&] { seed(id, "bad"); }), SessionFailure::invalid_seed);
  seed(id, "good");
  EXPECT_EQ(failure_of([&] { seed(id, "good"); }), SessionFailure::already_seeded);
  stop();
  start();
  EXPECT_EQ(failure_of([&] { seed(id, "good"); }), SessionFailure::already_seeded)
      << "also after a restart";
}

TEST_F(NativeSessionsTest, ARestartAdoptsWhatRuns) {
  const std::string id = create();
  stop();
  start();
  EXPECT_EQ(host->adoptions, 1);
  EXPECT_EQ(sessions->counts().running, 1U);
  EXPECT_EQ(run(id, {"still here"})[0].output->read(0, 100), "still here");
  EXPECT_EQ(host->creations, 1);
}

TEST_F(NativeSessionsTest, ARestartStopsWhatDiedAndRemovesWhatHasNoRecord) {
  const std::string id = create();
  stop();
  host->kill(id);
  host->layers_on_disk.insert("orphan");
  start();
  EXPECT_EQ(sessions->counts().stopped, 1U);
  EXPECT_FALSE(host->layers_on_disk.contains("orphan"));
  EXPECT_EQ(run(id, {"back"}).size(), 1U);
}

TEST_F(NativeSessionsTest, ASandboxThatDiedIsStartedByTheNextOperation) {
  const std::string id = create();
  host->crash(id);
  EXPECT_EQ(run(id, {"again"})[0].exit_code, 0);
  EXPECT_EQ(host->creations, 2);
}

TEST_F(NativeSessionsTest, ASandboxThatDiesUnderACommandIsToldPlainly) {
  const std::string id = create();
  const std::string other = create();
  EXPECT_EQ(failure_of([&] { run(id, {"drop"}); }), SessionFailure::unavailable);
  EXPECT_EQ(run(other, {"fine"})[0].exit_code, 0);
}

TEST_F(NativeSessionsTest, TheReaperRemovesByAgeButNotWhatIsInUse) {
  const std::string stopped = create();
  const std::string idle = create();
  const std::string busy = create();
  run_to_end(io, sessions->close(stopped, CloseMode::keep_warm));
  asio::cancellation_signal signal;
  asio::co_spawn(
      io, sessions->run(busy, {{"hang"}, false, std::nullopt}),
      asio::bind_cancellation_slot(signal.slot(), [](const std::exception_ptr&, const auto&) {}));
  io.restart();
  io.poll();
  now += 101s;
  run_to_end(io, sessions->reap());
  EXPECT_FALSE(sessions->exists(stopped));
  EXPECT_TRUE(sessions->exists(idle));
  now += 900s;
  run_to_end(io, sessions->reap());
  EXPECT_FALSE(sessions->exists(idle));
  EXPECT_TRUE(sessions->exists(busy));
  signal.emit(asio::cancellation_type::terminal);
  run(busy, {"true"});
}

TEST_F(NativeSessionsTest, TheReaperKeepsAsManyStoppedSessionsAsItMay) {
  settings.reaping.max_stopped = 1;
  stop();
  start();
  const std::string first = create();
  now += 1s;
  const std::string second = create();
  for (const auto& id : {first, second}) run_to_end(io, sessions->close(id, CloseMode::keep_warm));
  now += 1s;
  run(first, {"used again"});
  run_to_end(io, sessions->close(first, CloseMode::keep_warm));
  run_to_end(io, sessions->reap());
  EXPECT_TRUE(sessions->exists(first));
  EXPECT_FALSE(sessions->exists(second)) << "unused for longest";
}

TEST_F(NativeSessionsTest, ALookAtARunningSessionIsAUse) {
  const std::string id = create();
  now += 900s;
  EXPECT_TRUE(run_to_end(io, sessions->touch(id)));
  now += 900s;
  run_to_end(io, sessions->reap());
  EXPECT_TRUE(sessions->exists(id));
  now += 101s;
  run_to_end(io, sessions->reap());
  EXPECT_FALSE(sessions->exists(id));
}

TEST_F(NativeSessionsTest, TheReaperCountsFromTheEndOfALongOperation) {
  const std::string id = create();
  asio::cancellation_signal signal;
  bool ended = false;
  asio::co_spawn(io, sessions->run(id, {{"hang"}, false, std::nullopt}),
                 asio::bind_cancellation_slot(
                     signal.slot(), [&](const std::exception_ptr&, const auto&) { ended = true; }));
  io.restart();
  io.poll();
  now += 5000s;
  signal.emit(asio::cancellation_type::terminal);
  io.restart();
  while (!ended) io.run_one();
  run_to_end(io, sessions->reap());
  EXPECT_TRUE(sessions->exists(id));
}

}  // namespace
}  // namespace daiv::sessions
