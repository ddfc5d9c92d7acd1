#include "images/load_layout.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <utility>
#include <variant>

#include "images/image_service.hpp"
#include "images/reference.hpp"

namespace daiv::images {

namespace {

using Json = nlohmann::json;

constexpr int max_index_depth = 4;
constexpr std::string_view docker_manifest_name = "manifest.json";
constexpr std::string_view oci_index_name = "index.json";

[[noreturn]] void throw_invalid(const std::string& text) {
  throw ImageError(ImageFailure::invalid_image, text);
}

Json parse_json(const std::string& bytes, std::string_view name) {
  Json document = Json::parse(bytes, nullptr, false);
  if (document.is_discarded())
    throw_invalid(fmt::format("{} in the image archive is not JSON", name));
  return document;
}

std::string string_or_empty(const Json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : std::string();
}

std::vector<std::string> strings_of(const Json& object, const char* key) {
  std::vector<std::string> values;
  const auto array = object.find(key);
  if (array == object.end() || array->is_null()) return values;
  if (!array->is_array()) throw_invalid(fmt::format("{} in manifest.json is not a list", key));
  for (const auto& value : *array) {
    if (!value.is_string())
      throw_invalid(fmt::format("{} in manifest.json is not a list of texts", key));
    values.push_back(value.get<std::string>());
  }
  return values;
}

// A member that has a digest for its name (blobs/sha256/<hex>) must have that digest.
void check_named_digest(const std::string& path, const LoadArchive::Member& member) {
  const std::size_t at = path.find("blobs/sha256/");
  if (at == std::string::npos) return;
  const auto named =
      Digest::parse("sha256:" + path.substr(at + std::string_view("blobs/sha256/").size()));
  if (named && member.digest != *named)
    throw_invalid(fmt::format("{} does not have the digest of its name", path));
}

const LoadArchive::Member& find_checked(const LoadArchive& archive, const std::string& path) {
  const auto* member = archive.find(path);
  if (member == nullptr) throw_invalid(fmt::format("the image archive has no {}", path));
  check_named_digest(path, *member);
  return *member;
}

void complete(ArchivedImage& image, const Platform& wanted) {
  auto config = parse_config(image.config_bytes);
  if (!config) throw_invalid(config.error().text);
  image.config = std::move(*config);
  if (!runs_on(image.config.platform, wanted)) {
    throw ImageError(ImageFailure::wrong_platform,
                     fmt::format("the image is for {}, this host is {}",
                                 image.config.platform.string(), wanted.string()));
  }
  if (image.layers.size() != image.config.diff_ids.size()) {
    throw_invalid(fmt::format("the image has {} layers, its configuration speaks of {}",
                              image.layers.size(), image.config.diff_ids.size()));
  }
  image.id = Digest::of(image.config_bytes).string();
  if (image.references.empty()) image.references.push_back(image.id);
}

std::string full_reference(const std::string& text) {
  const auto reference = parse_reference(text);
  if (!reference)
    throw_invalid(fmt::format("the image archive has an invalid name: {}", reference.error().text));
  return reference->string();
}

ArchivedImage read_docker_image(const LoadArchive& archive, const Json& entry,
                                const Platform& wanted) {
  if (!entry.is_object())
    throw_invalid("manifest.json in the image archive is not a list of images");
  ArchivedImage image;
  const std::string config_path = string_or_empty(entry, "Config");
  find_checked(archive, config_path);
  image.config_bytes = archive.read(config_path, max_config_bytes);
  for (const auto& path : strings_of(entry, "Layers"))
    image.layers.push_back(&find_checked(archive, path));
  for (const auto& tag : strings_of(entry, "RepoTags"))
    image.references.push_back(full_reference(tag));
  complete(image, wanted);
  return image;
}

std::vector<ArchivedImage> read_docker(const LoadArchive& archive, const Platform& wanted) {
  const Json document = parse_json(
      archive.read(std::string(docker_manifest_name), max_manifest_bytes), docker_manifest_name);
  if (!document.is_array())
    throw_invalid("manifest.json in the image archive is not a list of images");
  std::vector<ArchivedImage> images;
  for (const auto& entry : document) images.push_back(read_docker_image(archive, entry, wanted));
  return images;
}

std::string blob_path(const Digest& digest) {
  if (digest.algorithm() != DigestAlgorithm::sha256)
    throw_invalid(fmt::format("{} is not a sha256 digest", digest.string()));
  return "blobs/sha256/" + std::string(digest.hex());
}

const LoadArchive::Member& find_blob(const LoadArchive& archive, const Descriptor& descriptor) {
  const std::string path = blob_path(descriptor.digest);
  const auto& member = find_checked(archive, path);
  if (member.size != descriptor.size)
    throw_invalid(fmt::format("{} does not have its size", descriptor.digest.string()));
  return member;
}

// The manifest that `descriptor` leads to, through indexes.
Manifest find_manifest(const LoadArchive& archive, const Descriptor& descriptor,
                       const Platform& wanted, int depth) {
  if (depth == max_index_depth)
    throw_invalid("the image archive has indexes in indexes without end");
  find_blob(archive, descriptor);
  auto document = parse_manifest(archive.read(blob_path(descriptor.digest), max_manifest_bytes),
                                 descriptor.media_type);
  if (!document) throw_invalid(document.error().text);
  if (auto* manifest = std::get_if<Manifest>(&*document)) return std::move(*manifest);
  const auto chosen = find_platform(std::get<Index>(*document).manifests, wanted);
  if (!chosen) {
    throw ImageError(ImageFailure::wrong_platform,
                     fmt::format("the image archive has nothing for {}", wanted.string()));
  }
  return find_manifest(archive, *chosen, wanted, depth + 1);
}

ArchivedImage read_oci_image(const LoadArchive& archive, const Descriptor& descriptor,
                             std::vector<std::string> references, const Platform& wanted) {
  const Manifest manifest = find_manifest(archive, descriptor, wanted, 0);
  ArchivedImage image;
  image.references = std::move(references);
  find_blob(archive, manifest.config);
  image.config_bytes = archive.read(blob_path(manifest.config.digest), max_config_bytes);
  for (const auto& layer : manifest.layers) image.layers.push_back(&find_blob(archive, layer));
  complete(image, wanted);
  return image;
}

// The name of an entry of index.json: what containerd writes, else the annotation of the OCI image
// layout spec, which may be a mere tag; then the image goes by its id.
std::vector<std::string> names_of(const Json& document, const Digest& digest) {
  std::vector<std::string> names;
  for (const auto& entry : document.value("manifests", Json::array())) {
    if (!entry.is_object() || string_or_empty(entry, "digest") != digest.string()) continue;
    const auto annotations = entry.find("annotations");
    if (annotations == entry.end() || !annotations->is_object()) continue;
    std::string name = string_or_empty(*annotations, "io.containerd.image.name");
    if (name.empty()) name = string_or_empty(*annotations, "org.opencontainers.image.ref.name");
    if (name.find_first_of("/:") == std::string::npos) continue;
    if (const auto reference = parse_reference(name)) names.push_back(reference->string());
  }
  return names;
}

std::vector<ArchivedImage> read_oci(const LoadArchive& archive, const Platform& wanted) {
  const std::string bytes = archive.read(std::string(oci_index_name), max_manifest_bytes);
  const Json document = parse_json(bytes, oci_index_name);
  const auto parsed = parse_manifest(bytes, media_type::oci_index);
  if (!parsed) throw_invalid(parsed.error().text);
  const auto* index = std::get_if<Index>(&*parsed);
  if (index == nullptr) throw_invalid("index.json in the image archive is not an index");
  std::vector<ArchivedImage> images;
  std::vector<Descriptor> nameless;
  for (const auto& descriptor : index->manifests) {
    auto names = names_of(document, descriptor.digest);
    if (names.empty()) {
      nameless.push_back(descriptor);
    } else {
      images.push_back(read_oci_image(archive, descriptor, std::move(names), wanted));
    }
  }
  // Several without a name are one image for several platforms.
  if (nameless.size() == 1) {
    images.push_back(read_oci_image(archive, nameless.front(), {}, wanted));
  } else if (const auto chosen = find_platform(nameless, wanted)) {
    images.push_back(read_oci_image(archive, *chosen, {}, wanted));
  }
  return images;
}

}  // namespace

std::vector<ArchivedImage> read_layout(const LoadArchive& archive, const Platform& wanted) {
  std::vector<ArchivedImage> images;
  // Newer `docker save` writes both: manifest.json has the names.
  if (archive.find(std::string(docker_manifest_name)) != nullptr) {
    images = read_docker(archive, wanted);
  } else if (archive.find(std::string(oci_index_name)) != nullptr) {
    images = read_oci(archive, wanted);
  } else {
    throw_invalid(
        "this is no image: neither manifest.json (docker save) nor index.json (OCI image layout) "
        "is in the archive");
  }
  if (images.empty()) throw_invalid("there is no image in the archive");
  return images;
}

}  // namespace daiv::images
