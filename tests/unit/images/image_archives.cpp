#include "image_archives.hpp"

#include <fmt/format.h>

#include "tar_builder.hpp"

namespace daiv::test {

namespace {

std::string hex(const std::string& bytes) { return sha256(bytes).substr(7); }

std::string descriptor(const char* type, const std::string& bytes, const std::string& more = "") {
  return fmt::format(R"({{"mediaType":"{}","digest":"{}","size":{}{}}})", type, sha256(bytes),
                     bytes.size(), more);
}

constexpr const char* manifest_type = "application/vnd.oci.image.manifest.v1+json";
constexpr const char* index_type = "application/vnd.oci.image.index.v1+json";

}  // namespace

std::string layer_tar(const std::string& name, const std::string& content) {
  return TarBuilder().file(name, content).take();
}

std::string config_of(const std::vector<std::string>& tars) {
  std::string ids;
  for (const auto& tar : tars) ids += fmt::format("{}\"{}\"", ids.empty() ? "" : ",", sha256(tar));
  return fmt::format(R"({{"os":"linux","architecture":"amd64","config":{{"Env":["A=1"]}},)"
                     R"("rootfs":{{"type":"layers","diff_ids":[{}]}}}})",
                     ids);
}

std::string docker_archive(const std::string& tag, const std::vector<std::string>& tars) {
  const std::string config = config_of(tars);
  std::string paths;
  TarBuilder archive;
  for (std::size_t i = 0; i < tars.size(); ++i) {
    archive.file(fmt::format("{}/layer.tar", i), tars[i]);
    paths += fmt::format("{}\"{}/layer.tar\"", i == 0 ? "" : ",", i);
  }
  archive.file(hex(config) + ".json", config);
  archive.file("manifest.json",
               fmt::format(R"([{{"Config":"{}.json","RepoTags":["{}"],"Layers":[{}]}}])",
                           hex(config), tag, paths));
  return archive.take();
}

std::string oci_archive(const std::string& name, const std::vector<std::string>& tars,
                        const std::string& manifest_extra) {
  const std::string config = config_of(tars);
  std::string layers;
  std::vector<std::string> blobs = {config};
  for (const auto& tar : tars) {
    blobs.push_back(gzip(tar));
    layers += (layers.empty() ? "" : ",") +
              descriptor("application/vnd.oci.image.layer.v1.tar+gzip", blobs.back());
  }
  const std::string manifest = fmt::format(
      R"({{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{}]{}}})", manifest_type,
      descriptor("application/vnd.oci.image.config.v1+json", config), layers, manifest_extra);
  const std::string inner = fmt::format(
      R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{}]}})", index_type,
      descriptor(manifest_type, manifest, R"(,"platform":{"os":"linux","architecture":"amd64"})"));
  const std::string annotation =
      fmt::format(R"(,"annotations":{{"org.opencontainers.image.ref.name":"{}"}})", name);
  TarBuilder archive;
  archive.file("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
  archive.file("index.json", fmt::format(R"({{"schemaVersion":2,"manifests":[{}]}})",
                                         descriptor(index_type, inner, annotation)));
  blobs.insert(blobs.end(), {manifest, inner});
  for (const auto& blob : blobs) archive.file("blobs/sha256/" + hex(blob), blob);
  return archive.take();
}

std::string docker_oci_archive(const std::string& tag, const std::vector<std::string>& tars) {
  const std::string config = config_of(tars);
  std::string layers;
  std::string paths;
  TarBuilder archive;
  for (const auto& tar : tars) {
    const char* comma = layers.empty() ? "" : ",";
    layers += comma + descriptor("application/vnd.oci.image.layer.v1.tar", tar);
    paths += fmt::format("{}\"blobs/sha256/{}\"", comma, hex(tar));
    archive.file("blobs/sha256/" + hex(tar), tar);
  }
  const std::string manifest = fmt::format(
      R"({{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{}]}})", manifest_type,
      descriptor("application/vnd.oci.image.config.v1+json", config), layers);
  const std::string annotations = fmt::format(
      R"(,"annotations":{{"io.containerd.image.name":"docker.io/library/{0}","org.opencontainers.image.ref.name":"{1}"}})",
      tag, tag.substr(tag.find(':') + 1));
  archive.file("blobs/sha256/" + hex(config), config);
  archive.file("blobs/sha256/" + hex(manifest), manifest);
  archive.file("index.json",
               fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{}]}})", index_type,
                           descriptor(manifest_type, manifest, annotations)));
  archive.file("manifest.json",
               fmt::format(R"([{{"Config":"blobs/sha256/{}","RepoTags":["{}"],"Layers":[{}]}}])",
                           hex(config), tag, paths));
  archive.file("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
  return archive.take();
}

}  // namespace daiv::test
