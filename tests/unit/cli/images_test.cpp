// What the command line adds to images: the sweep at the disk's watermark and proxies.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "cli/proxy_environment.hpp"
#include "cli/watermark_pruner.hpp"

namespace daiv::cli {
namespace {

using images::ImageService;
using namespace std::chrono_literals;

template <typename Condition>
bool becomes_true(Condition condition) {
  for (int i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

TEST(WatermarkPruner, SweepsByItselfAndWhenTold) {
  std::atomic<int> sweeps = 0;
  const auto sweep = [&] {
    ++sweeps;
    return ImageService::PruneReport{};
  };
  {
    WatermarkPruner often(sweep, {.interval = 10ms, .rest = 1ms});
    EXPECT_TRUE(becomes_true([&] { return sweeps > 2; }));
  }
  sweeps = 0;
  WatermarkPruner rarely(sweep, {.interval = 1h, .rest = 1ms});
  EXPECT_EQ(0, sweeps);
  rarely.disk_filled();
  EXPECT_TRUE(becomes_true([&] { return sweeps == 1; }));
}

TEST(WatermarkPruner, RestsBetweenSweeps) {
  std::atomic<int> sweeps = 0;
  WatermarkPruner pruner(
      [&] {
        ++sweeps;
        return ImageService::PruneReport{};
      },
      {.interval = 1h, .rest = 1h});
  pruner.disk_filled();
  EXPECT_TRUE(becomes_true([&] { return sweeps == 1; }));
  pruner.disk_filled();
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(1, sweeps);
}

TEST(WatermarkPruner, LogsALineARemovalAndOutlivesAFailure) {
  const auto before = spdlog::default_logger();
  std::ostringstream log;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  std::atomic<int> sweeps = 0;
  {
    WatermarkPruner pruner(
        [&]() -> ImageService::PruneReport {
          if (sweeps++ == 0) throw std::runtime_error("no disk");
          return {{"docker.io/library/a:1", "docker.io/library/b:1"}, 3, 77};
        },
        {.interval = 5ms, .rest = 1h});
    EXPECT_TRUE(becomes_true([&] { return sweeps == 1; }));
  }
  {
    WatermarkPruner pruner(
        [&]() -> ImageService::PruneReport {
          ++sweeps;
          return {{"docker.io/library/a:1", "docker.io/library/b:1"}, 3, 77};
        },
        {.interval = 5ms, .rest = 1h});
    EXPECT_TRUE(becomes_true([&] { return sweeps == 2; }));
  }
  spdlog::set_default_logger(before);
  const std::string text = log.str();
  for (const char* line : {"event=prune_failed error=\"no disk\"", "image=docker.io/library/a:1",
                           "image=docker.io/library/b:1", "layers=3 bytes=77"})
    EXPECT_NE(std::string::npos, text.find(line)) << text;
}

ProxyEnvironment read(std::map<std::string, std::string> variables) {
  return read_proxy_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(ProxyEnvironment, TakesUpperCaseBeforeLower) {
  const auto both = read({{"HTTPS_PROXY", "http://one:1"}, {"https_proxy", "http://two:2"}});
  EXPECT_EQ("http://one:1", both.https_proxy);
  EXPECT_EQ("", both.http_proxy);
  const auto lower = read({{"http_proxy", "http://two:2"}, {"NO_PROXY", ""}, {"no_proxy", "a,b"}});
  EXPECT_EQ("http://two:2", lower.http_proxy);
  EXPECT_EQ("a,b", lower.no_proxy);
}

}  // namespace
}  // namespace daiv::cli
