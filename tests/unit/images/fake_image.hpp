#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fake_server.hpp"
#include "images/digest.hpp"
#include "images/registry_client.hpp"

namespace daiv::images::test {

// An image as a registry keeps it: documents, and blobs by digest.
struct FakeImage {
  std::string config;
  std::string manifest;
  std::vector<std::string> layers;

  [[nodiscard]] Digest digest() const { return Digest::of(manifest); }
  // A proper answer to `request` for this image, tag "1", under any repository; 404 for the rest.
  // Ranges are served.
  [[nodiscard]] FakeResponse answer(const FakeRequest& request) const;
};

// Made of `layers`, whose bytes are their own tars. `platform`: members of the configuration.
FakeImage make_image(const std::vector<std::string>& layers,
                     const std::string& platform = R"("os":"linux","architecture":"amd64")");

// `size` bytes that don't repeat, so that no wrong offset goes unseen.
std::string make_bytes(std::size_t size);

// The answer to a request for all of `blob` or, with Range, for its rest.
FakeResponse serve_blob(const FakeRequest& request, const std::string& blob);

// Collects what a blob download delivers.
class CollectingSink final : public BlobSink {
public:
  void write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string text;
};

// Settings for tests: linux/amd64, and waits that only count.
struct TestClock {
  std::vector<std::chrono::milliseconds> sleeps;
  std::mutex mutex;
  std::chrono::steady_clock::time_point now =
      std::chrono::steady_clock::time_point{} + std::chrono::hours(1);
};
RegistrySettings test_settings(TestClock& clock);

// "<authority>/repo/image:1".
Reference reference_at(const FakeServer& server, const std::string& rest = "/repo/image:1");

// The ImageError that `action` throws; a test failure where it throws none.
template <typename Action>
ImageError error_of(Action action) {
  try {
    action();
  } catch (const ImageError& error) {
    return error;
  }
  return {ImageFailure::internal, "NO ERROR WAS THROWN"};
}

}  // namespace daiv::images::test
