#include "images/blob_fetch.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "fake_image.hpp"
#include "fake_server.hpp"

namespace daiv::images {
namespace {

using std::chrono::milliseconds;
using test::FakeRequest;
using test::FakeResponse;

constexpr std::size_t blob_size = 300'000;
constexpr std::size_t cut = 100'000;

// A registry with one image of one layer; the first answer for the layer breaks after `cut` bytes,
// later ones are the test's.
class BrokenDownload : public testing::Test {
protected:
  using Mood = std::function<FakeResponse(const FakeRequest& request, int number)>;

  void fetch(Mood mood) {
    mood_ = std::move(mood);
    settings_.no_progress_limit = milliseconds(300);
    RegistryClient client(settings_);
    const auto resolved = client.resolve(test::reference_at(server_));
    client.fetch_blob(resolved, resolved.layers.at(0).blob, sink_,
                      [this](std::uint64_t bytes) { progress_ = bytes; });
  }

  FakeResponse answer(const FakeRequest& request) {
    if (!request.target.ends_with(blob_path_)) return image_.answer(request);
    const int number = ++blob_requests_;
    if (number > 1) return mood_(request, number);
    return {.fields = {{"ETag", "\"one\""}}, .body = blob_, .cut_after = cut};
  }

  [[nodiscard]] std::vector<std::string> ranges() const {
    std::vector<std::string> ranges;
    for (const auto& request : server_.requests(blob_path_))
      ranges.push_back(request.field("range"));
    return ranges;
  }
  [[nodiscard]] FakeResponse rest_from(std::size_t offset) const {
    return test::serve_blob({.method = {},
                             .target = {},
                             .fields = {{"range", fmt::format("bytes={}-", offset)}},
                             .body = {}},
                            blob_);
  }
  [[nodiscard]] FakeResponse whole() const { return {.body = blob_}; }

  const std::string blob_ = test::make_bytes(blob_size);
  const std::string blob_path_ = "/blobs/" + Digest::of(blob_).string();
  const test::FakeImage image_ = test::make_image({blob_});
  Mood mood_;
  std::atomic<int> blob_requests_ = 0;
  test::TestClock clock_;
  RegistrySettings settings_ = test::test_settings(clock_);
  test::CollectingSink sink_;
  std::uint64_t progress_ = 0;
  test::FakeServer server_{[this](const FakeRequest& request) { return answer(request); }};
};

const std::string range_from_cut = fmt::format("bytes={}-", cut);
using Ranges = std::vector<std::string>;

TEST_F(BrokenDownload, ARightPartCompletesIt) {
  fetch([&](const FakeRequest& request, int) { return test::serve_blob(request, blob_); });
  EXPECT_EQ(sink_.text, blob_);
  EXPECT_EQ(progress_, blob_size);
  EXPECT_EQ(ranges(), (Ranges{"", range_from_cut}));
}

TEST_F(BrokenDownload, APartFromElsewhereIsDiscardedAndAllAskedAnew) {
  fetch([&](const FakeRequest& request, int) {
    return request.field("range").empty() ? whole() : rest_from(cut - 1);
  });
  EXPECT_EQ(sink_.text, blob_);
  EXPECT_EQ(ranges(), (Ranges{"", range_from_cut, ""}));
}

TEST_F(BrokenDownload, AWholeBodyIsSkippedToWhereItBroke) {
  fetch([&](const FakeRequest&, int) { return whole(); });
  EXPECT_EQ(sink_.text, blob_);
  EXPECT_EQ(ranges(), (Ranges{"", range_from_cut}));
}

TEST_F(BrokenDownload, AServerThatAlwaysBeginsAnewIsGivenUpAfterThree) {
  const auto error = test::error_of([&] {
    fetch([&](const FakeRequest&, int) { return FakeResponse{.body = blob_, .cut_after = cut}; });
  });
  EXPECT_EQ(error.failure(), ImageFailure::unreachable) << error.what();
  EXPECT_EQ(ranges().size(), 5U);  // the first, three that were skipped, one that was not read
  EXPECT_EQ(sink_.text, blob_.substr(0, cut));
}

TEST_F(BrokenDownload, ARefusedRangeRestartsOnce) {
  fetch([&](const FakeRequest& request, int) {
    return request.field("range").empty() ? whole() : FakeResponse{.status = 416};
  });
  EXPECT_EQ(sink_.text, blob_);
  EXPECT_EQ(ranges(), (Ranges{"", range_from_cut, ""}));
}

TEST_F(BrokenDownload, RangesThatAreRefusedAgainAreGivenUp) {
  const auto error = test::error_of([&] {
    fetch([&](const FakeRequest& request, int) {
      return request.field("range").empty() ? FakeResponse{.body = blob_, .cut_after = cut}
                                            : FakeResponse{.status = 416};
    });
  });
  EXPECT_EQ(error.failure(), ImageFailure::unreachable) << error.what();
  EXPECT_EQ(ranges(), (Ranges{"", range_from_cut, "", range_from_cut}));
}

TEST_F(BrokenDownload, APartWithoutContentRangeIsDiscarded) {
  fetch([&](const FakeRequest& request, int) {
    if (request.field("range").empty()) return whole();
    return FakeResponse{.status = 206, .fields = {}, .body = blob_.substr(cut)};
  });
  EXPECT_EQ(sink_.text, blob_);
  EXPECT_EQ(ranges(), (Ranges{"", range_from_cut, ""}));
}

TEST_F(BrokenDownload, ASilentServerFailsAtTheNoProgressLimit) {
  const auto begin = std::chrono::steady_clock::now();
  const auto error = test::error_of([&] {
    fetch([&](const FakeRequest& request, int) {
      auto response = test::serve_blob(request, blob_);
      response.cut_after = 0;
      response.ending = FakeResponse::Ending::stall;
      return response;
    });
  });
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(error.failure(), ImageFailure::unreachable) << error.what();
  EXPECT_NE(std::string(error.what()).find("no data came"), std::string::npos) << error.what();
  EXPECT_GE(took, milliseconds(300));
  EXPECT_LT(took, milliseconds(3000));
  EXPECT_EQ(ranges().size(), 2U);
}

TEST_F(BrokenDownload, ServerErrorsAreWaitedOut) {
  fetch([&](const FakeRequest& request, int number) {
    return number <= 3 ? FakeResponse{.status = 500} : test::serve_blob(request, blob_);
  });
  EXPECT_EQ(sink_.text, blob_);
  EXPECT_EQ(ranges(), (Ranges{"", range_from_cut, range_from_cut, range_from_cut}));
  EXPECT_EQ(clock_.sleeps.size(), 3U);
}

TEST_F(BrokenDownload, APartOfAnotherRepresentationIsDiscarded) {
  fetch([&](const FakeRequest& request, int) {
    auto response = test::serve_blob(request, blob_);
    response.fields.emplace_back("ETag", "\"two\"");
    return response;
  });
  EXPECT_EQ(sink_.text, blob_);
  EXPECT_EQ(ranges(), (Ranges{"", range_from_cut, ""}));
}

TEST_F(BrokenDownload, OtherBytesAfterARestartAreRefused) {
  auto other = blob_;
  other[10] = static_cast<char>(other[10] ^ 1);
  const auto error = test::error_of(
      [&] { fetch([&](const FakeRequest&, int) { return FakeResponse{.body = other}; }); });
  EXPECT_EQ(error.failure(), ImageFailure::invalid_image) << error.what();
  EXPECT_EQ(sink_.text, blob_.substr(0, cut));
}

TEST_F(BrokenDownload, OneThatCrawlsIsGivenUp) {
  const auto error = test::error_of([&] {
    fetch([&](const FakeRequest& request, int) {
      auto response = test::serve_blob(request, blob_);
      response.cut_after = 10;
      return response;
    });
  });
  EXPECT_EQ(error.failure(), ImageFailure::unreachable) << error.what();
  EXPECT_LE(ranges().size(), 8U);
}

TEST_F(BrokenDownload, ManyBreaksWithProgressBetweenThemAreEndured) {
  fetch([&](const FakeRequest& request, int) {
    auto response = test::serve_blob(request, blob_);
    if (response.body.size() > 70'000) response.cut_after = 70'000;
    return response;
  });
  EXPECT_EQ(sink_.text, blob_);
}

TEST_F(BrokenDownload, AShortAnswerInGoodOrderIsResumed) {
  fetch([&](const FakeRequest& request, int number) {
    auto response = test::serve_blob(request, blob_);
    if (number == 2) response.body.resize(1000);
    if (number == 2) response.ending = FakeResponse::Ending::chunked;
    return response;
  });
  EXPECT_EQ(sink_.text, blob_);
}

// Registries whose layer is not what its manifest says.
class WrongBlob : public testing::Test {
protected:
  ImageError fetch(const std::function<FakeResponse(const std::string& blob)>& answer) {
    const auto blob = test::make_bytes(50'000);
    const auto image = test::make_image({blob});
    const test::FakeServer server([&](const FakeRequest& request) {
      return request.target.ends_with(Digest::of(blob).string()) ? answer(blob)
                                                                 : image.answer(request);
    });
    RegistryClient client(test::test_settings(clock_));
    return test::error_of([&] {
      const auto resolved = client.resolve(test::reference_at(server));
      client.fetch_blob(resolved, resolved.layers.at(0).blob, sink_);
    });
  }
  test::TestClock clock_;
  test::CollectingSink sink_;
};

TEST_F(WrongBlob, WithAnotherDigestIsCorrupt) {
  const auto error = fetch([](std::string blob) {
    blob.back() = static_cast<char>(blob.back() ^ 1);
    return FakeResponse{.body = blob};
  });
  EXPECT_EQ(error.failure(), ImageFailure::invalid_image);
  EXPECT_NE(std::string(error.what()).find("corrupt"), std::string::npos) << error.what();
}

TEST_F(WrongBlob, ThatIsLongerIsCutOff) {
  for (const auto ending : {FakeResponse::Ending::proper, FakeResponse::Ending::chunked}) {
    sink_.text.clear();
    const auto error = fetch([&](const std::string& blob) {
      return FakeResponse{.body = blob + std::string(10'000'000, 'x'), .ending = ending};
    });
    EXPECT_EQ(error.failure(), ImageFailure::invalid_image) << error.what();
    EXPECT_LE(sink_.text.size(), 50'000U);
  }
}

TEST_F(WrongBlob, ThatIsShorterAndSaysSoIsRefused) {
  const auto error =
      fetch([&](const std::string& blob) { return FakeResponse{.body = blob.substr(1)}; });
  EXPECT_EQ(error.failure(), ImageFailure::invalid_image) << error.what();
}

TEST_F(WrongBlob, ThatIsMissingIsNotFound) {
  EXPECT_EQ(fetch([](const std::string&) { return FakeResponse{.status = 404}; }).failure(),
            ImageFailure::not_found);
}

class FullDisk final : public BlobSink {
public:
  void write(std::span<const std::byte>) override {
    throw ImageError(ImageFailure::no_space, "disk full");
  }
};

TEST(BlobSink, WhatItThrowsEndsTheDownloadAndComesOut) {
  const auto image = test::make_image({test::make_bytes(100'000)});
  const test::FakeServer server([&](const FakeRequest& request) { return image.answer(request); });
  test::TestClock clock;
  RegistryClient client(test::test_settings(clock));
  const auto resolved = client.resolve(test::reference_at(server));
  FullDisk sink;
  const auto error =
      test::error_of([&] { client.fetch_blob(resolved, resolved.layers[0].blob, sink); });
  EXPECT_EQ(error.failure(), ImageFailure::no_space);
  EXPECT_EQ(server.requests(resolved.layers[0].blob.digest.string()).size(), 1U);
}

TEST(BlobDownload, AStopEndsItAtOnce) {
  const auto image = test::make_image({test::make_bytes(100'000)});
  std::stop_source stop;
  const test::FakeServer server([&](const FakeRequest& request) {
    auto response = image.answer(request);
    if (!request.target.ends_with(Digest::of(image.layers[0]).string())) return response;
    response.cut_after = 5000;
    response.ending = FakeResponse::Ending::stall;
    return response;
  });
  test::TestClock clock;
  RegistryClient client(test::test_settings(clock));
  const auto resolved = client.resolve(test::reference_at(server));
  test::CollectingSink sink;
  const auto error = test::error_of([&] {
    client.fetch_blob(
        resolved, resolved.layers[0].blob, sink, [&](std::uint64_t) { stop.request_stop(); },
        stop.get_token());
  });
  EXPECT_EQ(error.failure(), ImageFailure::cancelled);
}

TEST(BlobDownload, LayersComeInParallelOverFewConnections) {
  std::vector<std::string> layers;
  for (std::size_t i = 0; i < 12; ++i) layers.push_back(test::make_bytes(200'000 + i));
  const auto image = test::make_image(layers);
  const test::FakeServer server([&](const FakeRequest& request) { return image.answer(request); });
  test::TestClock clock;
  RegistryClient client(test::test_settings(clock));
  const auto resolved = client.resolve(test::reference_at(server));
  std::atomic<std::size_t> next = 0;
  std::vector<test::CollectingSink> sinks(layers.size());
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (std::size_t layer = next++; layer < layers.size(); layer = next++) {
          client.fetch_blob(resolved, resolved.layers[layer].blob, sinks[layer]);
        }
      });
    }
  }
  for (std::size_t i = 0; i < layers.size(); ++i) EXPECT_EQ(sinks[i].text, layers[i]);
  EXPECT_LE(server.connections(), 1U + 4U);  // one that tried TLS, then one for each thread
}

}  // namespace
}  // namespace daiv::images
