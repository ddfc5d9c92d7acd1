#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "images/digest.hpp"
#include "images/image_service.hpp"

// Documents of an image: index, manifest, configuration (OCI image spec 1.1 and Docker image
// manifest v2, schema 2). Unknown keys are ignored, as the specs demand. Nothing here throws but
// std::bad_alloc.
namespace daiv::images {

inline constexpr std::size_t max_manifest_bytes = std::size_t{4} << 20U;
inline constexpr std::size_t max_config_bytes = std::size_t{8} << 20U;
inline constexpr std::size_t max_layers =
    500;  // the kernel's limit of overlayfs (fs/overlayfs/params.h)
inline constexpr std::size_t max_index_entries = 4096;

namespace media_type {
inline constexpr std::string_view oci_index = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view oci_manifest = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view oci_config = "application/vnd.oci.image.config.v1+json";
inline constexpr std::string_view docker_index =
    "application/vnd.docker.distribution.manifest.list.v2+json";
inline constexpr std::string_view docker_manifest =
    "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr std::string_view docker_config = "application/vnd.docker.container.image.v1+json";
}  // namespace media_type

struct Platform {
  std::string os;
  std::string architecture;  // "amd64", "arm64" (GOARCH)
  std::string variant;       // "v8" or empty

  [[nodiscard]] std::string string() const;  // "linux/arm64/v8"
  friend bool operator==(const Platform&, const Platform&) = default;
};

// A blob by content. `size` is what the document claims; whoever reads the blob checks it.
struct Descriptor {
  std::string media_type;
  Digest digest;
  std::uint64_t size = 0;
  std::optional<Platform> platform;  // in an index alone
};

struct Manifest {
  std::string media_type;
  Descriptor config;
  std::vector<Descriptor> layers;  // bottom first
};

struct Index {
  std::string media_type;
  std::vector<Descriptor> manifests;  // attestations left out
};

// The parts of an image's configuration that matter here.
struct ConfigFile {
  Platform platform;  // members are empty where the document leaves them out
  ImageConfig config;
  std::vector<Digest> diff_ids;  // bottom first
};

// Reads a manifest or an index. `content_type` is what the transport said it is (may be empty, may
// have parameters): a document that says otherwise, or that is both at once, is refused
// (CVE-2021-41190); so is schema 1.
std::expected<std::variant<Manifest, Index>, ParseError> parse_manifest(
    std::string_view bytes, std::string_view content_type = {});

std::expected<ConfigFile, ParseError> parse_config(std::string_view bytes);

// The platform of this machine with linux: "amd64" or "arm64" for `architecture`, empty: the
// build's own.
Platform host_platform(std::string_view architecture = {});

// The entry of `entries` that runs on `wanted`: exact variant first, then what it can run as well
// (arm64 is arm64/v8, amd64 runs v1 and v2), last an entry that names no platform. Empty where
// there is none.
std::optional<Descriptor> find_platform(std::span<const Descriptor> entries,
                                        const Platform& wanted);

// Whether an image of platform `actual`, as its configuration says, runs on `wanted`; unnamed parts
// match.
[[nodiscard]] bool runs_on(const Platform& actual, const Platform& wanted);

}  // namespace daiv::images
