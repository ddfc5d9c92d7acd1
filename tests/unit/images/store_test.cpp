// The store with the real unpack program behind it: archives and a fake registry in, layers and
// records out.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "fake_image.hpp"
#include "fake_server.hpp"
#include "image_archives.hpp"
#include "images/chain_id.hpp"
#include "images/image_service.hpp"
#include "images/layer_name.hpp"
#include "os/io.hpp"
#include "store_fixture.hpp"
#include "tar_builder.hpp"

namespace daiv::test {
namespace {

using images::Digest;
using images::Image;
using images::ImageFailure;
using images::ImageService;

using Store = StoreTest;

TEST_F(Store, LoadsDockerArchive) {
  const auto images = load(docker_archive("debian:12", {layer_tar("a", "1"), layer_tar("b", "2")}));
  ASSERT_EQ(1U, images.size());
  EXPECT_EQ("docker.io/library/debian:12", images[0].reference);
  ASSERT_EQ(2U, images[0].layers.size());
  EXPECT_EQ("1", content(images[0], 0, "a"));
  EXPECT_EQ("2", content(images[0], 1, "b"));
  EXPECT_EQ(std::vector<std::string>{"A=1"}, images[0].config.environment);
  EXPECT_EQ(images[0].id, service().ensure("debian:12").id);
}

TEST_F(Store, LoadsWhatDockerSavesSinceItWritesOciLayouts) {
  const auto images =
      load(docker_oci_archive("library/debian:12", {layer_tar("a", "1"), layer_tar("b", "2")}));
  ASSERT_EQ(1U, images.size());
  EXPECT_EQ("docker.io/library/debian:12", images[0].reference);
  ASSERT_EQ(2U, images[0].layers.size());
  EXPECT_EQ("2", content(images[0], 1, "b"));
}

TEST_F(Store, KeptBlobsAreNotFetchedAgainAndDroppedOnesAre) {
  for (const bool kept : {true, false}) {
    const std::string tar = layer_tar("a", kept ? "kept" : "dropped");
    const auto image = images::test::make_image({tar});
    images::test::FakeServer server(
        [&](const images::test::FakeRequest& request) { return image.answer(request); });
    auto given = settings();
    given.blobs = kept ? images::BlobRetention::keep : images::BlobRetention::drop;
    service_ = std::make_unique<ImageService>(given, backend_);
    const std::string reference = server.authority() + "/repo/image:1";
    service().ensure(reference);
    prune(ImageService::PruneScope::unused_images);
    EXPECT_EQ(1U, service().ensure(reference).layers.size());
    EXPECT_EQ(kept ? 1U : 2U, server.requests(sha256(tar)).size());
  }
}

TEST_F(Store, AlwaysFollowsATagThatMovedAndAsksNoMoreThanItsDigestWhereItDidNot) {
  const auto old_image = images::test::make_image({layer_tar("a", "old")});
  const auto new_image = images::test::make_image({layer_tar("a", "new")});
  std::atomic<bool> moved = false;
  images::test::FakeServer server([&](const images::test::FakeRequest& request) {
    return (moved ? new_image : old_image).answer(request);
  });
  const std::string reference = server.authority() + "/repo/image:1";
  const auto first = service().ensure(reference);
  EXPECT_EQ(first.id, service().ensure(reference, images::PullPolicy::always).id);
  moved = true;
  EXPECT_EQ(first.id, service().ensure(reference).id);
  const auto second = service().ensure(reference, images::PullPolicy::always);
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ("new", content(second, 0, "a"));
  EXPECT_EQ(second.id, service().ensure(reference).id);
}

TEST_F(Store, LoadsOciLayoutThroughNestedIndexFromAPipe) {
  const std::string archive = gzip(oci_archive("ghcr.io/a/b:1", {layer_tar("a", "1")}));
  os::Pipe pipe = os::make_pipe();
  const std::jthread feeding([&] {
    os::write_full(pipe.write_end, archive);
    pipe.write_end.reset();
  });
  const auto images = service().load(pipe.read_end);
  ASSERT_EQ(1U, images.size());
  EXPECT_EQ("ghcr.io/a/b:1", images[0].reference);
  EXPECT_EQ("1", content(images[0], 0, "a"));
}

TEST_F(Store, KeepsALayerOfTwoImagesOnce) {
  const std::string shared = layer_tar("shared", "s");
  const auto first = load(docker_archive("one:1", {shared, layer_tar("a", "1")}));
  const auto second = load(docker_archive("two:1", {shared, layer_tar("b", "2")}));
  EXPECT_EQ(first[0].layers[0], second[0].layers[0]);
  EXPECT_EQ(3U, backend_.list().size());
  EXPECT_EQ(3, backend_.unpacks());
}

TEST_F(Store, LeavesEmptyLayersOut) {
  const auto images = load(docker_archive("e:1", {TarBuilder().take(), layer_tar("a", "1")}));
  EXPECT_EQ(1U, images[0].layers.size());
  EXPECT_EQ(1U, backend_.list().size());
}

TEST_F(Store, RefusesMoreThan500LayersBeforeAnythingIsUnpacked) {
  std::vector<std::string> tars(501, layer_tar("a", "1"));
  const auto error = load_error(docker_archive("many:1", tars));
  EXPECT_EQ(ImageFailure::invalid_image, error.failure());
  EXPECT_NE(std::string::npos, std::string(error.what()).find("500")) << error.what();
  EXPECT_EQ(0, backend_.unpacks());
}

TEST_F(Store, CorruptLayerLeavesNothingAndOthersAlone) {
  load(docker_archive("good:1", {layer_tar("a", "1")}));
  const auto error = load_error(docker_archive("bad:1", {TarBuilder().file("etc/.wh.").take()}));
  EXPECT_EQ(ImageFailure::invalid_image, error.failure());
  EXPECT_NE(std::string::npos, std::string(error.what()).find("etc/.wh.: invalid whiteout"))
      << error.what();
  EXPECT_EQ(1U, backend_.list().size());
  EXPECT_EQ(1U, service().list().size());
}

TEST_F(Store, LayerThatIsNotItsDiffIdIsRefused) {
  std::string archive = docker_archive("bad:1", {layer_tar("a", "1")});
  archive.replace(archive.find("a\0", 512), 1, "A");  // within the inner tar
  EXPECT_EQ(ImageFailure::invalid_image, load_error(archive).failure());
  EXPECT_TRUE(backend_.list().empty());
}

TEST_F(Store, CVE_2021_41190_DocumentThatIsManifestAndIndexIsRefused) {
  const auto error = load_error(oci_archive("c:1", {layer_tar("a", "1")}, R"(,"manifests":[])"));
  EXPECT_EQ(ImageFailure::invalid_image, error.failure());
  EXPECT_EQ(0, backend_.unpacks());
}

TEST_F(Store, KilledUnpackerLeavesNothingAndARetryWorks) {
  backend_.kill_next();
  const std::string archive = docker_archive("k:1", {layer_tar("a", std::string(3'000'000, 'x'))});
  EXPECT_EQ(ImageFailure::internal, load_error(archive).failure());
  EXPECT_TRUE(backend_.list().empty());
  EXPECT_EQ(1U, load(archive).size());
}

TEST_F(Store, RestartRemovesDirectoriesWithoutRecordAndForgetsRecordsWithoutDirectory) {
  const auto images = load(docker_archive("r:1", {layer_tar("a", "1")}));
  load(docker_archive("s:1", {layer_tar("b", "1")}));
  service_.reset();
  ::mkdir(backend_.path("zzzzzz").c_str(), 0700);
  backend_.remove({images[0].layers[0]});
  const auto left = service().list();
  ASSERT_EQ(1U, left.size());
  EXPECT_EQ("docker.io/library/s:1", left[0].reference);
  EXPECT_EQ(left[0].layers, backend_.list());
}

TEST_F(Store, SecondProcessDoesNotTouchTheFirstsWork) {
  service();
  ::mkdir(backend_.path("zzzzzz").c_str(), 0700);  // complete, about to be recorded
  ImageService second(settings(), backend_);
  EXPECT_EQ(std::vector<std::string>{"zzzzzz"}, backend_.list());
  load(docker_archive("seen:1", {layer_tar("a", "1")}));
  EXPECT_EQ(1U, second.list().size());
  EXPECT_EQ("docker.io/library/seen:1", second.ensure("seen:1").reference);
}

TEST_F(Store, PullsOnceForManyCallersAndThenNoMore) {
  const std::string tar = layer_tar("a", std::string(300'000, 'x'));
  const auto image = images::test::make_image({tar});
  images::test::FakeServer server(
      [&](const images::test::FakeRequest& request) { return image.answer(request); });
  const std::string reference = server.authority() + "/repo/image:1";
  service();
  std::vector<std::jthread> callers;
  std::atomic<int> pulled = 0;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] { pulled += service().ensure(reference).layers.size() == 1 ? 1 : 0; });
  }
  callers.clear();
  EXPECT_EQ(8, pulled);
  EXPECT_EQ(1, backend_.unpacks());
  EXPECT_EQ(1U, server.requests(sha256(tar)).size());
}

// A descriptor's "urls" made a client send its credentials wherever the image said.
TEST_F(Store, CVE_2020_15157_UrlsOfDescriptorsAreNotFetched) {
  const std::string tar = layer_tar("a", "1");
  images::test::FakeServer foreign(
      [](const images::test::FakeRequest&) { return images::test::FakeResponse{}; });
  auto image = images::test::make_image({tar});
  const std::string digest = fmt::format("\"digest\":\"{}\"", sha256(tar));
  const auto at = image.manifest.find(digest);
  ASSERT_NE(std::string::npos, at);
  image.manifest.insert(at, fmt::format(R"("urls":["{}/layer"],)", foreign.url()));
  images::test::FakeServer server(
      [&](const images::test::FakeRequest& request) { return image.answer(request); });
  EXPECT_EQ(1U, service().ensure(server.authority() + "/repo/image:1").layers.size());
  EXPECT_TRUE(foreign.requests().empty());
}

TEST(ChainId, FollowsTheSpec) {
  const std::vector<Digest> diffs = {Digest::of("a"), Digest::of("b")};
  const auto chains = images::chain_ids(diffs);
  EXPECT_EQ(diffs[0], chains[0]);
  EXPECT_EQ(Digest::of(diffs[0].string() + " " + diffs[1].string()), chains[1]);
}

TEST(LayerName, IsSixOfItsAlphabet) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(images::make_layer_name());
  EXPECT_EQ(100U, names.size());
  for (const auto& name : names) EXPECT_TRUE(images::is_layer_name(name)) << name;
  for (const char* bad : {"", "abcde", "abcdefg", "abcde/", "ABCDEF", "abc.de"})
    EXPECT_FALSE(images::is_layer_name(bad));
}

}  // namespace
}  // namespace daiv::test
