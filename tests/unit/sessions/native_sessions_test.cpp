#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <string>

#include "native_sessions_rig.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

TEST_F(NativeSessionsTest, ACreatedSessionRunsCommands) {
  const std::string id = create({{"A", "b"}});
  const auto results = run(id, {"echo", "fail", "more"});
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[1].exit_code, 1);
  EXPECT_EQ(results[2].output->read(0, 100), "more");
  EXPECT_TRUE(sessions->exists(id));
  EXPECT_EQ(sessions->counts().running, 1U);
  EXPECT_EQ(host->last_spec.request.uid_base, first_test_uid + 65536);
  const auto config = agent::Config::decode(host->last_spec.agent_config);
  EXPECT_NE(std::find(config.environment.begin(), config.environment.end(), "A=b"),
            config.environment.end());
  EXPECT_NE(std::find(config.environment.begin(), config.environment.end(), "FROM_IMAGE=1"),
            config.environment.end());
}

TEST_F(NativeSessionsTest, FailFastAndTimeoutsSkipTheRest) {
  const std::string id = create();
  EXPECT_EQ(run(id, {"fail", "never"}, true).size(), 1U);
  const auto results = run(id, {"a", "timeout", "never"});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[1].exit_code, 124);
}

TEST_F(NativeSessionsTest, AFailedCreationLeavesNothing) {
  for (const auto& [kind, expected] : std::map<runtime::Failure, SessionFailure>{
           {runtime::Failure::invalid, SessionFailure::bad_request},
           {runtime::Failure::unsupported, SessionFailure::unavailable},
           {runtime::Failure::no_space, SessionFailure::unavailable}}) {
    host->fail_next = kind;
    EXPECT_EQ(failure_of([&] { create(); }), expected);
    EXPECT_TRUE(host->layers_on_disk.empty());
  }
  host->fail_next = runtime::Failure::internal;
  EXPECT_THROW(create(), HostError);
  EXPECT_TRUE(host->layers_on_disk.empty());
  EXPECT_TRUE(sessions->list().empty());
  EXPECT_TRUE(sessions->layers_in_use().empty());
  for (int count = 0; count < 3; ++count) create();  // every range came back
}

TEST_F(NativeSessionsTest, WhatLosesTheBrokerIsWorthARetry) {
  const std::string stopped = create();
  const auto close = [&](const std::string& id, CloseMode mode) {
    run_to_end(io, sessions->close(id, mode));
  };
  close(stopped, CloseMode::keep_warm);
  const std::string running = create();
  host->gone = true;
  EXPECT_EQ(failure_of([&] { create(); }), SessionFailure::unavailable);
  EXPECT_EQ(failure_of([&] { run(stopped, {"true"}); }), SessionFailure::unavailable);
  EXPECT_EQ(failure_of([&] { close(running, CloseMode::keep_warm); }), SessionFailure::unavailable);
  EXPECT_EQ(failure_of([&] { close(stopped, CloseMode::remove); }), SessionFailure::unavailable);
  host->gone = false;
}

TEST_F(NativeSessionsTest, AnotherDaemonsUidRangeIsPassedOver) {
  host->fail_next = runtime::Failure::range_taken;
  create();
  EXPECT_EQ(host->last_spec.request.uid_base, first_test_uid + 2 * 65536);
}

TEST_F(NativeSessionsTest, ALayerThatWasPrunedMeanwhileIsFetchedAgain) {
  host->fail_next = runtime::Failure::not_found;
  EXPECT_TRUE(sessions->exists(create()));
}

TEST_F(NativeSessionsTest, ImageTroubleIsTheClientsOrWorthARetry) {
  image_failure = images::ImageFailure::not_found;
  EXPECT_EQ(failure_of([&] { create(); }), SessionFailure::bad_request);
  image_failure = images::ImageFailure::unreachable;
  EXPECT_EQ(failure_of([&] { create(); }), SessionFailure::unavailable);
  image_failure = images::ImageFailure::internal;
  EXPECT_THROW(create(), images::ImageError);
}

TEST_F(NativeSessionsTest, RangesThatRunOutAreWorthARetry) {
  for (int count = 0; count < 3; ++count) create();
  EXPECT_EQ(failure_of([&] { create(); }), SessionFailure::unavailable);
}

TEST_F(NativeSessionsTest, ABusySessionIsBusyAndOthersAreNot) {
  const std::string id = create();
  const std::string other = create();
  asio::cancellation_signal signal;
  bool ended = false;
  asio::co_spawn(io, sessions->run(id, {{"hang"}, false, std::nullopt}),
                 asio::bind_cancellation_slot(
                     signal.slot(), [&](const std::exception_ptr&, const auto&) { ended = true; }));
  EXPECT_EQ(run(other, {"fine"})[0].exit_code, 0);
  EXPECT_EQ(failure_of([&] { run(id, {"true"}); }), SessionFailure::busy);
  EXPECT_EQ(failure_of([&] { run_to_end(io, sessions->close(id, CloseMode::remove)); }),
            SessionFailure::busy);
  EXPECT_TRUE(run_to_end(io, sessions->touch(id))) << "whether it exists can be asked at any time";
  signal.emit(asio::cancellation_type::terminal);
  EXPECT_EQ(run(id, {"free again"})[0].exit_code, 0);
  EXPECT_TRUE(ended);
}

TEST_F(NativeSessionsTest, AClientThatLeavesDuringCreationLeavesNoSession) {
  asio::cancellation_signal signal;
  std::optional<bool> failed;
  CreateOptions options;
  options.base_image = "x";
  host->before_creation = [&] {  // on the pool, while the client waits
    asio::post(io, [&] { signal.emit(asio::cancellation_type::terminal); });
    std::promise<void> emitted;
    asio::post(io, [&] { emitted.set_value(); });
    emitted.get_future().wait();
  };
  asio::co_spawn(io, sessions->create(std::move(options)),
                 asio::bind_cancellation_slot(
                     signal.slot(), [&](const std::exception_ptr& error, const std::string&) {
                       failed = error != nullptr;
                     }));
  io.restart();
  while (!failed) io.run_one();
  EXPECT_TRUE(*failed);
  EXPECT_TRUE(sessions->list().empty());
  EXPECT_TRUE(host->layers_on_disk.empty());
}

}  // namespace
}  // namespace daiv::sessions
