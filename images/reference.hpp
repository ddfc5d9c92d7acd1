#pragma once

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "images/digest.hpp"

namespace daiv::images {

inline constexpr std::size_t max_repository_length = 255;
inline constexpr std::size_t max_domain_length =
    300;  // DNS allows 253 (RFC 1035 §2.3.4), and a port
inline constexpr std::size_t max_tag_length = 128;
// Longer than any valid reference; more is refused unread.
inline constexpr std::size_t max_reference_length = 1024;

// What names an image in a registry, in full form. Values come out of parse_reference() and are
// valid.
struct Reference {
  std::string domain;            // "docker.io", "localhost:5000", "[::1]:5000"
  std::string path;              // "library/debian"
  std::string tag;               // "12"; empty only where `digest` is set
  std::optional<Digest> digest;  // where set, it decides and the tag is a remark

  // "docker.io/library/debian": what registries.conf and credentials are looked up by.
  [[nodiscard]] std::string name() const;
  // "docker.io/library/debian:12", "docker.io/library/debian@sha256:…", or with both parts.
  [[nodiscard]] std::string string() const;

  friend bool operator==(const Reference&, const Reference&) = default;
};

// Reads `text` exactly as Docker does (github.com/distribution/reference, ParseDockerRef without
// dropping the tag): docker.io and library/ are filled in, the part before the first slash is a
// host if it has a dot or a colon, is "localhost" or has an upper-case letter; without tag and
// digest the tag is "latest".
std::expected<Reference, ParseError> parse_reference(std::string_view text);

}  // namespace daiv::images
