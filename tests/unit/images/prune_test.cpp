// What prune() takes away, and what holds it off: sessions, pins, and the watermark.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <stop_token>
#include <thread>

#include "image_archives.hpp"
#include "images/image_service.hpp"
#include "images/layer_pins.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "store_fixture.hpp"

namespace daiv::test {
namespace {

using images::Image;
using images::ImageService;
using images::LayerPins;
using PruneScope = ImageService::PruneScope;

using Prune = StoreTest;

TEST_F(Prune, KeepsWhatIsReferencedAndWhatSessionsUse) {
  const std::string shared = layer_tar("shared", "s");
  const auto layers = load(docker_archive("one:1", {shared, layer_tar("a", "1")}))[0].layers;
  load(docker_archive("two:1", {shared, layer_tar("b", "2")}));
  EXPECT_TRUE(service().remove("one:1"));
  EXPECT_FALSE(service().remove("one:1"));
  const auto used = service().prune(PruneScope::unreferenced_layers, [&] { return layers; });
  EXPECT_EQ(0U, used.layers);
  const auto unused = prune(PruneScope::unreferenced_layers);
  EXPECT_EQ(1U, unused.layers);
  EXPECT_EQ(2U, backend_.list().size());
  const auto all = prune(PruneScope::unused_images);
  EXPECT_EQ(std::vector<std::string>{"docker.io/library/two:1"}, all.images);
  EXPECT_TRUE(backend_.list().empty());
  EXPECT_TRUE(service().list().empty());
}

TEST_F(Prune, LeavesWhatWasHandedOutUntilThePinIsGone) {
  load(docker_archive("one:1", {layer_tar("a", "1")}));
  std::optional<Image> image = service().ensure("one:1");
  std::optional<Image> copy = image;
  EXPECT_TRUE(prune(PruneScope::unused_images).images.empty());
  image.reset();
  EXPECT_TRUE(prune(PruneScope::unused_images).images.empty());
  EXPECT_EQ("1", content(*copy, 0, "a"));
  copy.reset();
  EXPECT_EQ(1U, prune(PruneScope::unused_images).images.size());
  EXPECT_TRUE(backend_.list().empty());
}

TEST_F(Prune, LeavesLayersOfAForgottenImageThatIsPinned) {
  std::optional<Image> image = load(docker_archive("one:1", {layer_tar("a", "1")})).front();
  EXPECT_TRUE(service().remove("one:1"));
  EXPECT_EQ(0U, prune(PruneScope::unreferenced_layers).layers);
  image.reset();
  EXPECT_EQ(1U, prune(PruneScope::unreferenced_layers).layers);
}

TEST_F(Prune, HonoursThePinsOfASecondService) {
  load(docker_archive("one:1", {layer_tar("a", "1")}));
  ImageService second(settings(), backend_);
  std::optional<Image> image = second.ensure("one:1");
  EXPECT_TRUE(prune(PruneScope::unused_images).images.empty());
  image.reset();
  EXPECT_EQ(1U, prune(PruneScope::unused_images).images.size());
}

// Whatever the order, who was given an image finds its layers.
TEST_F(Prune, NeverTakesLayersFromUnderACallerThatPulls) {
  const std::string archive = docker_archive("one:1", {layer_tar("a", "1"), layer_tar("b", "2")});
  load(archive);
  std::atomic<int> removed = 0;
  std::jthread pruning([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      removed += static_cast<int>(prune(PruneScope::unused_images).images.size());
    }
  });
  for (int round = 0; round < 200 && (round < 20 || removed < 5); ++round) {
    std::vector<Image> images;
    try {
      images = load(archive);
    } catch (const images::ImageError& error) {
      // Pruning without a pause may win every one of its tries: a plain refusal, nothing half
      // there.
      ASSERT_EQ(images::ImageFailure::cancelled, error.failure()) << error.what();
      continue;
    }
    ASSERT_EQ(1U, images.size());
    ASSERT_EQ("2", content(images[0], 1, "b")) << "round " << round;
  }
  pruning.request_stop();
  pruning.join();
  EXPECT_GT(removed, 0);
}

TEST_F(Prune, AboveTheWatermarkGoesLeastRecentlyUsedFirst) {
  auto given = settings();
  given.prune_above_used_fraction = 0;  // everything is too much
  service_ = std::make_unique<ImageService>(given, backend_);
  load(docker_archive("old:1", {layer_tar("a", "1")}));
  load(docker_archive("kept:1", {layer_tar("b", "2")}));
  const Image kept = service().ensure("kept:1");
  const auto report = prune(PruneScope::above_watermark);
  EXPECT_EQ(std::vector<std::string>{"docker.io/library/old:1"}, report.images);
  EXPECT_EQ(1U, report.layers);
  EXPECT_EQ(kept.layers, backend_.list());
}

TEST_F(Prune, BelowTheWatermarkNothingGoes) {
  auto given = settings();
  given.prune_above_used_fraction = 1;
  service_ = std::make_unique<ImageService>(given, backend_);
  load(docker_archive("old:1", {layer_tar("a", "1")}));
  EXPECT_TRUE(prune(PruneScope::above_watermark).images.empty());
  EXPECT_EQ(1U, backend_.list().size());
}

using Pins = StoreTest;

TEST_F(Pins, AClaimSeesThoseOfAProcessUntilItDies) {
  LayerPins pins(dir_.path() + "/pins");
  os::Pipe held = os::make_pipe();
  os::Pipe wait = os::make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    LayerPins own(dir_.path() + "/pins");
    const auto pin = own.hold({"aaaaaa"});
    char byte = 'h';
    if (::write(held.write_end.get(), &byte, 1) != 1) ::_exit(1);
    wait.write_end.reset();
    ::_exit(::read(wait.read_end.get(), &byte, 1) == 0
                ? 0
                : 1);  // with the pin: the kernel lets go of it
  }
  std::byte byte{};
  ASSERT_EQ(1U, os::read_some(held.read_end, std::span(&byte, 1)));
  EXPECT_EQ(std::vector<std::string>{"aaaaaa"}, pins.claim({"aaaaaa", "aaaaab"}).pinned());
  wait.write_end.reset();
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(pins.claim({"aaaaaa", "aaaaab"}).pinned().empty());
}

TEST_F(Pins, APinWaitsForAClaim) {
  LayerPins pins(dir_.path() + "/pins");
  std::optional<LayerPins::Claim> claim = pins.claim({"zzzzzz"});
  std::atomic<bool> pinned = false;
  std::jthread holding([&] {
    const auto pin = pins.hold({"zzzzzz"});
    pinned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(pinned);
  claim.reset();
  holding.join();
  EXPECT_TRUE(pinned);
  EXPECT_TRUE(pins.claim({"zzzzzz"}).pinned().empty());
}

}  // namespace
}  // namespace daiv::test
