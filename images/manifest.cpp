#include "images/manifest.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>

#include "os/attack_switches.hpp"

namespace daiv::images {
namespace {

using Json = nlohmann::json;

// Carries a refusal out of nested parsing; never leaves this file.
struct Refusal {
  std::string text;
};

constexpr std::string_view oci_attestation_key = "vnd.docker.reference.type";
constexpr std::string_view schema1_type_prefix = "application/vnd.docker.distribution.manifest.v1";

const Json* find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_or_empty(const Json& object, std::string_view key) {
  const auto* value = find(object, key);
  if (value == nullptr) return {};
  if (!value->is_string()) throw Refusal{fmt::format("\"{}\" is not a string", key)};
  return value->get<std::string>();
}

const Json& array_at(const Json& object, std::string_view key, std::size_t max_size) {
  static const Json none = Json::array();
  const auto* value = find(object, key);
  if (value == nullptr) return none;
  if (!value->is_array()) throw Refusal{fmt::format("\"{}\" is not a list", key)};
  if (value->size() > max_size) {
    throw Refusal{fmt::format("{} {}, at most {} are possible", value->size(), key, max_size)};
  }
  return *value;
}

Digest digest_of(const Json& value) {
  if (!value.is_string()) throw Refusal{"a digest is not a string"};
  auto digest = Digest::parse(value.get_ref<const std::string&>());
  if (!digest) throw Refusal{digest.error().text};
  return *std::move(digest);
}

std::uint64_t size_of(const Json& descriptor) {
  const auto* size = find(descriptor, "size");
  if (size == nullptr || !size->is_number_unsigned())
    throw Refusal{"a descriptor has no valid size"};
  const auto bytes = size->get<std::uint64_t>();
  // The spec has it as int64; what is larger would wrap somewhere.
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw Refusal{"a descriptor has no valid size"};
  }
  return bytes;
}

Platform platform_of(const Json& object) {
  return {.os = text_or_empty(object, "os"),
          .architecture = text_or_empty(object, "architecture"),
          .variant = text_or_empty(object, "variant")};
}

Descriptor descriptor_of(const Json& value) {
  if (!value.is_object()) throw Refusal{"a descriptor is not an object"};
  const auto* digest = find(value, "digest");
  if (digest == nullptr) throw Refusal{"a descriptor has no digest"};
  Descriptor descriptor{.media_type = text_or_empty(value, "mediaType"),
                        .digest = digest_of(*digest),
                        .size = size_of(value),
                        .platform = {}};
  if (const auto* platform = find(value, "platform");
      platform != nullptr && platform->is_object()) {
    descriptor.platform = platform_of(*platform);
  }
  return descriptor;
}

bool is_index_type(std::string_view type) {
  return type == media_type::oci_index || type == media_type::docker_index;
}
bool is_manifest_type(std::string_view type) {
  return type == media_type::oci_manifest || type == media_type::docker_manifest;
}
bool is_known_type(std::string_view type) { return is_index_type(type) || is_manifest_type(type); }

// "Application/X; charset=utf-8" → "application/x" (RFC 9110 §8.3.1).
std::string bare_type(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
  std::ranges::transform(type, type.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return type;
}

// What the document is, from three witnesses that must not contradict one another: the transport,
// its own mediaType, and the keys it has. Else one digest could be read as two different images
// (CVE-2021-41190).
std::string agreed_type(const Json& document, std::string_view content_type) {
  const std::string outer = bare_type(content_type);
  const std::string inner = text_or_empty(document, "mediaType");
  // What the careless do: the transport alone says how the bytes are read.
  if (!os::defence_is_on(os::Defence::single_meaning) && is_known_type(outer))
    return std::string(outer);
  const auto* version = find(document, "schemaVersion");
  const bool is_version_2 = version != nullptr && version->is_number_integer() && *version == 2;
  if (outer.starts_with(schema1_type_prefix) || inner.starts_with(schema1_type_prefix) ||
      find(document, "fsLayers") != nullptr || (version != nullptr && !is_version_2)) {
    throw Refusal{
        "its manifest has the schema 1 of old, which is not supported: push the image again with a "
        "current tool"};
  }
  if (is_known_type(outer) && !inner.empty() && inner != outer) {
    throw Refusal{"its manifest is of another media type than the registry says"};
  }
  if (!inner.empty() && !is_known_type(inner)) {
    throw Refusal{fmt::format("media type \"{}\" is not an image", inner.substr(0, 100))};
  }
  const bool has_manifests = document.contains("manifests");
  const bool has_layers = document.contains("layers") || document.contains("config");
  if (has_manifests == has_layers)
    throw Refusal{"its manifest is neither an index nor an image, or both at once"};

  std::string type = !inner.empty() ? inner : outer;
  if (!is_known_type(type)) type = has_manifests ? media_type::oci_index : media_type::oci_manifest;
  if (is_index_type(type) != has_manifests)
    throw Refusal{"its manifest is not what its media type says"};
  return type;
}

bool is_attestation(const Json& entry) {
  const auto* annotations = find(entry, "annotations");
  return annotations != nullptr && annotations->is_object() &&
         annotations->contains(oci_attestation_key);
}

Index index_of(const Json& document, std::string type) {
  Index index{.media_type = std::move(type), .manifests = {}};
  for (const auto& entry : array_at(document, "manifests", max_index_entries)) {
    if (entry.is_object() && is_attestation(entry)) continue;
    index.manifests.push_back(descriptor_of(entry));
  }
  return index;
}

Manifest manifest_of(const Json& document, std::string type) {
  const auto* config = find(document, "config");
  if (config == nullptr) throw Refusal{"its manifest names no configuration"};
  Manifest manifest{.media_type = std::move(type), .config = descriptor_of(*config), .layers = {}};
  for (const auto& layer : array_at(document, "layers", max_layers)) {
    manifest.layers.push_back(descriptor_of(layer));
  }
  return manifest;
}

// NAME=value; what has no name or no "=" is dropped, and of one name the last stays (runc does so,
// too).
std::vector<std::string> environment_of(const Json& config) {
  std::vector<std::string> environment;
  constexpr std::size_t max_variables = 4096;
  for (const auto& entry : array_at(config, "Env", max_variables)) {
    if (!entry.is_string()) continue;
    const auto& text = entry.get_ref<const std::string&>();
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || text.contains('\0')) continue;
    const auto name = std::string_view(text).substr(0, equals + 1);
    std::erase_if(environment,
                  [&](const std::string& earlier) { return earlier.starts_with(name); });
    environment.push_back(text);
  }
  return environment;
}

ConfigFile config_of(const Json& document) {
  ConfigFile file;
  file.platform = platform_of(document);
  if (const auto* config = find(document, "config"); config != nullptr) {
    if (!config->is_object()) throw Refusal{"\"config\" is not an object"};
    file.config.environment = environment_of(*config);
    file.config.user = text_or_empty(*config, "User");
    file.config.working_dir = text_or_empty(*config, "WorkingDir");
  }
  const auto* rootfs = find(document, "rootfs");
  if (rootfs == nullptr || !rootfs->is_object()) throw Refusal{"its configuration has no rootfs"};
  for (const auto& diff_id : array_at(*rootfs, "diff_ids", max_layers))
    file.diff_ids.push_back(digest_of(diff_id));
  return file;
}

// Parses `bytes` as an object and gives it to `read`; refusals become values.
template <typename Read>
auto parse_object(std::string_view bytes, std::size_t max_bytes, std::string_view what, Read read)
    -> std::expected<decltype(read(Json{})), ParseError> {
  const auto refuse = [&](std::string_view why) {
    return std::unexpected(ParseError{fmt::format("{}: {}", what, why)});
  };
  if (bytes.size() > max_bytes) return refuse("too large");
  const auto document = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return refuse("not a JSON object");
  try {
    return read(document);
  } catch (const Refusal& refusal) {
    return refuse(refusal.text);
  }
}

// How well `entry` suits; 0: not at all.
int suitability(const Platform& entry, const Platform& wanted) {
  if (entry.os != wanted.os || entry.architecture != wanted.architecture) return 0;
  if (entry.variant == wanted.variant) return 4;
  if (entry.variant.empty()) return 3;
  if (wanted.architecture == "arm64" && entry.variant == "v8") return 3;
  // Every amd64 processor in service has v2 (SSE4.2); v3 would die with SIGILL on some.
  if (wanted.architecture == "amd64" && entry.variant == "v1") return 3;
  if (wanted.architecture == "amd64" && entry.variant == "v2") return 2;
  return 0;
}

}  // namespace

std::string Platform::string() const {
  return variant.empty() ? fmt::format("{}/{}", os, architecture)
                         : fmt::format("{}/{}/{}", os, architecture, variant);
}

std::expected<std::variant<Manifest, Index>, ParseError> parse_manifest(
    std::string_view bytes, std::string_view content_type) {
  return parse_object(bytes, max_manifest_bytes, "invalid manifest",
                      [&](const Json& document) -> std::variant<Manifest, Index> {
                        auto type = agreed_type(document, content_type);
                        if (is_index_type(type)) return index_of(document, std::move(type));
                        return manifest_of(document, std::move(type));
                      });
}

std::expected<ConfigFile, ParseError> parse_config(std::string_view bytes) {
  return parse_object(bytes, max_config_bytes, "invalid image configuration", config_of);
}

Platform host_platform(std::string_view architecture) {
#if defined(__aarch64__)
  constexpr std::string_view built_for = "arm64";
#else
  constexpr std::string_view built_for = "amd64";
#endif
  return {.os = "linux",
          .architecture = std::string(architecture.empty() ? built_for : architecture),
          .variant = {}};
}

std::optional<Descriptor> find_platform(std::span<const Descriptor> entries,
                                        const Platform& wanted) {
  const Descriptor* best = nullptr;
  int best_score = 0;
  for (const auto& entry : entries) {
    const bool is_image = entry.media_type.empty() || is_known_type(entry.media_type);
    if (!is_image) continue;
    // Platforms are optional (OCI image spec, image-index.md): the configuration will tell.
    const int score = entry.platform ? suitability(*entry.platform, wanted) : 1;
    if (score > best_score) {
      best = &entry;
      best_score = score;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

bool runs_on(const Platform& actual, const Platform& wanted) {
  const auto matches = [](const std::string& is, const std::string& should) {
    return is.empty() || is == should;
  };
  return matches(actual.os, wanted.os) && matches(actual.architecture, wanted.architecture);
}

}  // namespace daiv::images
