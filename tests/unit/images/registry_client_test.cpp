#include "images/registry_client.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_image.hpp"
#include "fake_server.hpp"
#include "os/io.hpp"

namespace daiv::images {
namespace {

using test::FakeRequest;
using test::FakeResponse;

class ConfFile {
public:
  explicit ConfFile(std::string_view text) {
    os::write_full(os::UniqueFd(::mkostemp(path_, O_CLOEXEC)), text);
  }
  ~ConfFile() { ::unlink(path_); }
  ConfFile(const ConfFile&) = delete;
  ConfFile& operator=(const ConfFile&) = delete;
  [[nodiscard]] std::string path() const { return path_; }

private:
  char path_[32] = "/tmp/registries-XXXXXX";
};

class Pull : public testing::Test {
protected:
  // The error of resolving "repo/image:1" at a registry that answers as `handler` says.
  ImageError error_with(test::FakeServer::Handler handler,
                        const std::string& rest = "/repo/image:1") {
    const test::FakeServer server(std::move(handler));
    RegistryClient client(settings_);
    return test::error_of([&] { client.resolve(test::reference_at(server, rest)); });
  }

  const test::FakeImage image_ = test::make_image({"layer"});
  test::TestClock clock_;
  RegistrySettings settings_ = test::test_settings(clock_);
};

TEST_F(Pull, ByTagGivesDigestsConfigurationAndLayers) {
  const test::FakeServer server([&](const FakeRequest& request) { return image_.answer(request); });
  RegistryClient client(settings_);
  const auto resolved = client.resolve(test::reference_at(server));
  EXPECT_EQ(resolved.digest, image_.digest());
  EXPECT_EQ(resolved.manifest_digest, image_.digest());
  EXPECT_EQ(resolved.manifest, image_.manifest);
  EXPECT_EQ(resolved.config_bytes, image_.config);
  EXPECT_EQ(resolved.config_blob.digest, Digest::of(image_.config));
  EXPECT_EQ(resolved.config.config.environment, std::vector<std::string>{"A=1"});
  ASSERT_EQ(resolved.layers.size(), 1U);
  EXPECT_EQ(resolved.layers[0].diff_id, Digest::of("layer"));
  EXPECT_EQ(client.resolve_digest(test::reference_at(server)), image_.digest());
}

TEST_F(Pull, AsksForEachKnownMediaTypeAndNoCoding) {
  const test::FakeServer server([&](const FakeRequest& request) { return image_.answer(request); });
  RegistryClient(settings_).resolve(test::reference_at(server));
  for (const auto& request : server.requests()) EXPECT_EQ(request.field("accept-encoding"), "");
  const auto accept = server.requests("/manifests/").at(0).field("accept");
  for (const auto type : {media_type::oci_index, media_type::oci_manifest, media_type::docker_index,
                          media_type::docker_manifest}) {
    EXPECT_NE(accept.find(type), std::string::npos) << accept;
  }
}

TEST_F(Pull, ByDigestVerifiesTheManifest) {
  const auto good = "/repo/image@" + image_.digest().string();
  const test::FakeServer server([&](const FakeRequest& request) { return image_.answer(request); });
  EXPECT_EQ(RegistryClient(settings_).resolve(test::reference_at(server, good)).digest,
            image_.digest());
  const auto error = error_with(
      [&](const FakeRequest& request) {
        auto response = image_.answer(request);
        if (request.target.contains("/manifests/")) response.body += " ";
        return response;
      },
      good);
  EXPECT_EQ(error.failure(), ImageFailure::invalid_image) << error.what();
}

TEST_F(Pull, ByTagHoldsTheRegistryToItsWord) {
  const auto error = error_with([&](const FakeRequest& request) {
    auto response = image_.answer(request);
    if (request.target.contains("/manifests/")) response.body += " ";
    return response;
  });
  EXPECT_EQ(error.failure(), ImageFailure::invalid_image) << error.what();
}

// Serves an index of images by platform.
class FakeIndex {
public:
  void add(const std::string& platform, const std::string& variant = {}) {
    const auto slash = platform.find('/');
    const auto members = fmt::format(R"("os":"{}","architecture":"{}")", platform.substr(0, slash),
                                     platform.substr(slash + 1));
    images_.push_back(test::make_image({platform + variant}, members));
    if (!entries_.empty()) entries_ += ",";
    entries_ += fmt::format(
        R"({{"mediaType":"{}","digest":"{}","size":{},"platform":{{{},"variant":"{}"}}}})",
        media_type::oci_manifest, images_.back().digest().string(), images_.back().manifest.size(),
        members, variant);
  }
  [[nodiscard]] std::string text() const {
    return fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{}]}})",
                       media_type::oci_index, entries_);
  }
  [[nodiscard]] FakeResponse answer(const FakeRequest& request) const {
    if (request.target.ends_with("/manifests/1")) {
      return {.fields = {{"Content-Type", std::string(media_type::oci_index)}}, .body = text()};
    }
    for (const auto& image : images_) {
      if (auto response = image.answer(request); response.status != 404) return response;
    }
    return {.status = 404};
  }

private:
  std::vector<test::FakeImage> images_;
  std::string entries_;
};

TEST_F(Pull, TakesThisPlatformOfAnIndex) {
  FakeIndex index;
  index.add("linux/amd64");
  index.add("linux/arm64", "v8");
  index.add("windows/amd64");
  const test::FakeServer server([&](const FakeRequest& request) { return index.answer(request); });
  const auto reference = test::reference_at(server);
  const auto amd64 = RegistryClient(settings_).resolve(reference);
  EXPECT_EQ(amd64.layers[0].diff_id, Digest::of("linux/amd64"));
  EXPECT_EQ(amd64.digest, Digest::of(index.text()));
  EXPECT_NE(amd64.manifest_digest, amd64.digest);
  settings_.platform = host_platform("arm64");
  EXPECT_EQ(RegistryClient(settings_).resolve(reference).layers[0].diff_id,
            Digest::of("linux/arm64v8"));
}

TEST_F(Pull, SaysWhichPlatformsThereAre) {
  FakeIndex index;
  index.add("linux/s390x");
  const auto error = error_with([&](const FakeRequest& request) { return index.answer(request); });
  EXPECT_EQ(error.failure(), ImageFailure::wrong_platform);
  EXPECT_NE(std::string(error.what()).find("no image for linux/amd64; there is: linux/s390x"),
            std::string::npos)
      << error.what();
}

TEST_F(Pull, RefusesASingleImageOfAnotherPlatform) {
  const auto image = test::make_image({"x"}, R"("os":"linux","architecture":"ppc64le")");
  const auto error = error_with([&](const FakeRequest& request) { return image.answer(request); });
  EXPECT_EQ(error.failure(), ImageFailure::wrong_platform) << error.what();
}

TEST_F(Pull, HasAMessageForEachKindOfRefusal) {
  struct Case {
    int status;
    ImageFailure failure;
    std::string_view words;
  };
  for (const auto& [status, failure, words] :
       {Case{401, ImageFailure::not_found, "knows no such image, or it needs credentials"},
        Case{403, ImageFailure::denied, "denies access"},
        Case{404, ImageFailure::not_found, "not found in registry"},
        Case{429, ImageFailure::rate_limited, "limits the rate"},
        Case{503, ImageFailure::unreachable, "status 503"},
        Case{418, ImageFailure::internal, "unexpected status 418"}}) {
    const auto error = error_with(
        [answer = status](const FakeRequest&) { return FakeResponse{.status = answer}; });
    EXPECT_EQ(error.failure(), failure) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_F(Pull, WaitsWhereTheRegistrySaysSoButNotForEver) {
  int busy = 1;
  const test::FakeServer server([&](const FakeRequest& request) {
    if (busy-- > 0) return FakeResponse{.status = 503, .fields = {{"Retry-After", "5"}}};
    return image_.answer(request);
  });
  RegistryClient(settings_).resolve(test::reference_at(server));
  EXPECT_EQ(clock_.sleeps, std::vector{std::chrono::milliseconds(5000)});

  std::atomic<int> asked = 0;
  const auto error = error_with([&](const FakeRequest&) {
    ++asked;
    return FakeResponse{.status = 429, .fields = {{"Retry-After", "86400"}}};
  });
  EXPECT_EQ(error.failure(), ImageFailure::rate_limited);
  EXPECT_EQ(asked, 1);
}

TEST_F(Pull, NobodyListeningIsUnreachable) {
  std::string authority;
  {
    authority = test::FakeServer([](const FakeRequest&) { return FakeResponse{}; }).authority();
  }
  RegistryClient client(settings_);
  const auto error =
      test::error_of([&] { client.resolve(parse_reference(authority + "/a").value()); });
  EXPECT_EQ(error.failure(), ImageFailure::unreachable);
  EXPECT_NE(std::string(error.what()).find("can't connect"), std::string::npos) << error.what();
}

TEST_F(Pull, HostileDocumentsAreRefused) {
  const auto with_manifest = [&](const std::string& manifest, const std::string& type = {}) {
    return error_with([&](const FakeRequest& request) {
      if (!request.target.contains("/manifests/")) return image_.answer(request);
      return FakeResponse{.fields = {{"Content-Type", type}}, .body = manifest};
    });
  };
  const std::string too_large(max_manifest_bytes + 1, ' ');
  const auto huge_config =
      fmt::format(R"({{"schemaVersion":2,"config":{{"digest":"{}","size":99999999}},"layers":[]}})",
                  Digest::of("x").string());
  const auto chart = fmt::format(
      R"({{"schemaVersion":2,"config":{{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"{}","size":1}},"layers":[]}})",
      Digest::of("x").string());
  const auto too_few_diff_ids =
      fmt::format(R"({{"schemaVersion":2,"config":{{"digest":"{}","size":{}}},"layers":[]}})",
                  Digest::of(image_.config).string(), image_.config.size());
  for (const auto& manifest :
       {std::string(), std::string("<html>"), std::string(R"({"schemaVersion":1,"fsLayers":[]})"),
        too_large, huge_config, chart, too_few_diff_ids}) {
    const auto error = with_manifest(manifest);
    EXPECT_EQ(error.failure(), ImageFailure::invalid_image) << error.what();
  }
  EXPECT_EQ(with_manifest(image_.manifest, std::string(media_type::oci_index)).failure(),
            ImageFailure::invalid_image);
}

TEST_F(Pull, RedirectsAreFollowedAFewTimes) {
  for (const int count : {5, 6}) {
    const test::FakeServer server([&](const FakeRequest& request) {
      if (request.target.ends_with("/manifests/1"))
        return FakeResponse{.status = 302, .fields = {{"Location", "/hop/1"}}};
      if (request.target.starts_with("/hop/")) {
        const int hop = std::stoi(request.target.substr(5));
        const auto next = hop < count ? fmt::format("/hop/{}", hop + 1)
                                      : "/manifests/" + image_.digest().string();
        if (hop < count) return FakeResponse{.status = 307, .fields = {{"Location", next}}};
        return FakeResponse{.body = image_.manifest};
      }
      return image_.answer(request);
    });
    RegistryClient client(settings_);
    if (count == 5) {
      EXPECT_NO_THROW(client.resolve(test::reference_at(server)));
    } else {
      EXPECT_EQ(test::error_of([&] { client.resolve(test::reference_at(server)); }).failure(),
                ImageFailure::unreachable);
    }
  }
}

TEST_F(Pull, ASilentServerOfDocumentsFailsAtTheNoProgressLimit) {
  settings_.no_progress_limit = std::chrono::milliseconds(300);
  const auto begin = std::chrono::steady_clock::now();
  const auto error = error_with([&](const FakeRequest& request) {
    auto response = image_.answer(request);
    response.cut_after = response.body.size() / 2;
    response.ending = FakeResponse::Ending::stall;
    return response;
  });
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(error.failure(), ImageFailure::unreachable) << error.what();
  EXPECT_NE(std::string(error.what()).find("no data came"), std::string::npos) << error.what();
  EXPECT_GE(took, std::chrono::milliseconds(300));
  EXPECT_LT(took, std::chrono::milliseconds(5000));
}

TEST_F(Pull, RedirectsToOtherSchemesAreNotFollowed) {
  for (const std::string target :
       {"file:///etc/passwd", "gopher://x/", "ftp://127.0.0.1/x", "http://", "", "javascript:1"}) {
    const auto error = error_with([&](const FakeRequest&) {
      return FakeResponse{.status = 302, .fields = {{"Location", target}}};
    });
    EXPECT_EQ(error.failure(), ImageFailure::unreachable) << target;
  }
}

TEST_F(Pull, FallsBackFromMirrorsInOrder) {
  const test::FakeServer broken([](const FakeRequest&) { return FakeResponse{.status = 404}; });
  const test::FakeServer mirror([&](const FakeRequest& request) {
    // Has the manifest, lacks the layer.
    if (request.target.ends_with(Digest::of("layer").string())) return FakeResponse{.status = 404};
    return image_.answer(request);
  });
  const test::FakeServer registry(
      [&](const FakeRequest& request) { return image_.answer(request); });
  const ConfFile conf(fmt::format(
      "[[registry]]\nprefix = \"example.com\"\nlocation = \"{}/primary\"\n"
      "[[registry.mirror]]\nlocation = \"{}\"\n[[registry.mirror]]\nlocation = \"{}/deep/path\"\n",
      registry.authority(), broken.authority(), mirror.authority()));
  settings_.registries_conf = conf.path();
  RegistryClient client(settings_);
  const auto resolved = client.resolve(parse_reference("example.com/a/b:1").value());
  EXPECT_EQ(broken.requests().size(), 1U);
  EXPECT_FALSE(mirror.requests("/v2/deep/path/a/b/manifests/1").empty());
  EXPECT_TRUE(registry.requests().empty());
  test::CollectingSink sink;
  client.fetch_blob(resolved, resolved.layers[0].blob, sink);
  EXPECT_EQ(sink.text, "layer");
  EXPECT_EQ(registry.requests("/v2/primary/a/b/blobs/").size(), 1U);
}

TEST_F(Pull, ADownloadGoesOnAtTheNextSource) {
  const auto layer = test::make_bytes(100'000);
  const auto image = test::make_image({layer});
  const test::FakeServer mirror([&](const FakeRequest& request) {
    auto response = image.answer(request);
    if (!request.target.ends_with(Digest::of(layer).string())) return response;
    if (!request.field("range").empty()) return FakeResponse{.status = 404};
    response.cut_after = 60'000;
    return response;
  });
  const test::FakeServer registry(
      [&](const FakeRequest& request) { return image.answer(request); });
  const ConfFile conf(
      fmt::format("[[registry]]\nprefix = \"example.com\"\nlocation = \"{}\"\n"
                  "[[registry.mirror]]\nlocation = \"{}\"\n",
                  registry.authority(), mirror.authority()));
  settings_.registries_conf = conf.path();
  RegistryClient client(settings_);
  const auto resolved = client.resolve(parse_reference("example.com/a/b:1").value());
  test::CollectingSink sink;
  client.fetch_blob(resolved, resolved.layers[0].blob, sink);
  EXPECT_EQ(sink.text, layer);
  EXPECT_EQ(registry.requests().at(0).field("range"), "bytes=60000-");
}

TEST_F(Pull, BlockedRegistriesAreNotAsked) {
  const test::FakeServer server([&](const FakeRequest& request) { return image_.answer(request); });
  const ConfFile conf(
      fmt::format("[[registry]]\nlocation = \"{}\"\nblocked = true\n", server.authority()));
  settings_.registries_conf = conf.path();
  RegistryClient client(settings_);
  const auto error = test::error_of([&] { client.resolve(test::reference_at(server)); });
  EXPECT_EQ(error.failure(), ImageFailure::blocked) << error.what();
  EXPECT_EQ(server.connections(), 0U);
}

TEST_F(Pull, AStopBeforehandAsksNobody) {
  const test::FakeServer server([&](const FakeRequest& request) { return image_.answer(request); });
  std::stop_source stop;
  stop.request_stop();
  RegistryClient client(settings_);
  const auto error =
      test::error_of([&] { client.resolve(test::reference_at(server), stop.get_token()); });
  EXPECT_EQ(error.failure(), ImageFailure::cancelled) << error.what();
  EXPECT_TRUE(server.requests().empty());
}

}  // namespace
}  // namespace daiv::images
