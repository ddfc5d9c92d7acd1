#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coroutine_test.hpp"
#include "fake_host.hpp"
#include "sessions/environment.hpp"
#include "sessions/native_sessions.hpp"

namespace daiv::sessions {

constexpr std::uint32_t first_test_uid = 0x70000000;

inline images::Image sample_image() {
  images::Image image;
  image.id = "sha256:1";
  image.reference = "docker.io/library/x:latest";
  image.layers = {"aaaaaa"};
  image.config.environment = {"FROM_IMAGE=1"};
  return image;
}

struct NativeSessionsTest : testing::Test {
  NativeSessionsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "daiv-sessions.XXXXXX").string();
    directory = ::mkdtemp(name.data());
    settings.store.database_path = directory + "/state.db";
    settings.store.runtime_dir = directory;
    settings.store.uid_start = first_test_uid;
    settings.store.uid_count = 4;
    settings.spool_dir = directory;
    settings.lock_wait = std::chrono::milliseconds(50);
    settings.reaping = {std::chrono::seconds(100), 50, std::chrono::seconds(1000)};
    settings.reaper = SessionSettings::Reaper::off;
    host = std::make_unique<FakeHost>(directory);
    start();
  }
  ~NativeSessionsTest() override {
    stop();
    host.reset();
    std::filesystem::remove_all(directory);
  }
  void start() {
    sessions = std::make_unique<NativeSessions>(
        settings, *host, [this](const std::string&) { return find_image(); }, io.get_executor(),
        pool, pull_pool, [this] { return now; });
    sessions->start();
  }
  void stop() {
    run_to_end(io, sessions->shut_down());
    sessions.reset();
  }
  images::Image find_image() const {
    if (image_failure) throw images::ImageError(*image_failure, "image trouble");
    return sample_image();
  }
  std::string create(Environment environment = {}) {
    CreateOptions options;
    options.base_image = "x";
    options.environment = std::move(environment);
    return run_to_end(io, sessions->create(std::move(options)));
  }
  std::vector<CommandResult> run(const std::string& id, std::vector<std::string> commands,
                                 bool fail_fast = false) {
    return run_to_end(io, sessions->run(id, {std::move(commands), fail_fast, std::nullopt}));
  }
  template <typename Action>
  std::optional<SessionFailure> failure_of(Action action) {
    try {
      action();
    } catch (const SessionError& error) {
      return error.failure();
    }
    return std::nullopt;
  }
  void seed(const std::string& id, const std::string& bytes) {
    run_to_end(io,
               [](NativeSessions& all, std::string session,
                  std::string content) -> boost::asio::awaitable<void> {
                 const auto sink = co_await all.begin_seed(session);
                 co_await sink->begin(SeedField::repo);
                 co_await sink->write(content);
                 co_await sink->end();
                 co_await sink->commit();
               }(*sessions, id, bytes));
  }

  std::string directory;
  SessionSettings settings;
  std::optional<images::ImageFailure> image_failure;
  Time now = Time(std::chrono::seconds(1'000'000));
  boost::asio::io_context io;
  boost::asio::thread_pool pool{4};
  boost::asio::thread_pool pull_pool{2};
  std::unique_ptr<FakeHost> host;
  std::unique_ptr<NativeSessions> sessions;
};

}  // namespace daiv::sessions
