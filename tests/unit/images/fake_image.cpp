#include "fake_image.hpp"

#include <fmt/core.h>

#include <charconv>
#include <random>

namespace daiv::images::test {

FakeResponse serve_blob(const FakeRequest& request, const std::string& blob) {
  const std::string range = request.field("range");
  if (range.empty()) return {.body = blob};
  std::size_t first = 0;
  const std::string_view digits = std::string_view(range).substr(sizeof "bytes=" - 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), first);
  if (first >= blob.size()) return {.status = 416};
  return {.status = 206,
          .fields = {{"Content-Range",
                      fmt::format("bytes {}-{}/{}", first, blob.size() - 1, blob.size())}},
          .body = blob.substr(first)};
}

FakeResponse FakeImage::answer(const FakeRequest& request) const {
  const auto path = request.path();
  if (path.ends_with("/manifests/1") || path.ends_with("/manifests/" + digest().string())) {
    return {.fields = {{"Content-Type", std::string(media_type::oci_manifest)},
                       {"Docker-Content-Digest", digest().string()}},
            .body = manifest};
  }
  std::vector<const std::string*> blobs = {&config};
  for (const auto& layer : layers) blobs.push_back(&layer);
  for (const auto* blob : blobs) {
    if (path.ends_with("/blobs/" + Digest::of(*blob).string())) return serve_blob(request, *blob);
  }
  return {.status = 404, .fields = {}, .body = R"({"errors":[{"code":"MANIFEST_UNKNOWN"}]})"};
}

FakeImage make_image(const std::vector<std::string>& layers, const std::string& platform) {
  FakeImage image{.config = {}, .manifest = {}, .layers = layers};
  std::string diff_ids;
  std::string descriptors;
  for (const auto& layer : layers) {
    const auto digest = Digest::of(layer).string();
    const std::string comma = diff_ids.empty() ? "" : ",";
    diff_ids += fmt::format("{}\"{}\"", comma, digest);
    descriptors += fmt::format(
        R"({}{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"{}","size":{}}})",
        comma, digest, layer.size());
  }
  image.config = fmt::format(
      R"({{{},"config":{{"Env":["A=1"]}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}})", platform,
      diff_ids);
  image.manifest = fmt::format(
      R"({{"schemaVersion":2,"mediaType":"{}","config":{{"mediaType":"{}","digest":"{}","size":{}}},"layers":[{}]}})",
      media_type::oci_manifest, media_type::oci_config, Digest::of(image.config).string(),
      image.config.size(), descriptors);
  return image;
}

std::string make_bytes(std::size_t size) {
  std::minstd_rand generator(42);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(generator() & 0x7FU);
  return bytes;
}

RegistrySettings test_settings(TestClock& clock) {
  RegistrySettings settings;
  settings.platform = host_platform("amd64");
  settings.certs_dirs = {};
  settings.sleep = [&clock](std::chrono::milliseconds duration, const std::stop_token& stop) {
    const std::lock_guard lock(clock.mutex);
    clock.sleeps.push_back(duration);
    return !stop.stop_requested();
  };
  settings.now = [&clock] {
    const std::lock_guard lock(clock.mutex);
    return clock.now;
  };
  return settings;
}

Reference reference_at(const FakeServer& server, const std::string& rest) {
  return parse_reference(server.authority() + rest).value();
}

}  // namespace daiv::images::test
