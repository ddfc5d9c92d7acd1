#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "images/digest.hpp"
#include "images/reference.hpp"

namespace daiv::images {

// How far a registry's transport has to be trusted.
enum class Transport {
  verified_tls,  // https with a certificate that verifies
  insecure,      // https with any certificate, else plain http: loopback, or marked insecure
};

// One place an image can be pulled from.
struct PullSource {
  std::string authority;   // host and port to connect to: "registry-1.docker.io", "localhost:5000"
  std::string repository;  // "library/debian"
  Transport transport = Transport::verified_tls;
  std::string name;  // "docker.io/library/debian", by which credentials are looked up

  friend bool operator==(const PullSource&, const PullSource&) = default;
};

// registries.conf(5), version 2. Short names are always docker.io's, as Docker reads them: the
// search list is not applied. A value, immutable after reading.
class RegistriesConf {
public:
  // Reads `path` and the *.conf files of the directory `path` + ".d" in the order of their names; a
  // later table of the same prefix replaces an earlier one. What does not exist is skipped. Errors
  // name the file and the key.
  static std::expected<RegistriesConf, ParseError> read(const std::string& path);
  // One file's text; `file` is for errors.
  static std::expected<RegistriesConf, ParseError> parse(std::string_view text,
                                                         const std::string& file);

  struct Blocked {
    std::string prefix;
  };
  // Where to pull `reference` from, in the order to try: mirrors that are meant for it, then the
  // registry itself. Empty where its locations leave no repository; Blocked where it forbids it.
  [[nodiscard]] std::expected<std::vector<PullSource>, Blocked> sources(
      const Reference& reference) const;

  enum class MirrorUse { all, digest_only, tag_only };
  struct Mirror {
    std::string location;
    Transport transport = Transport::verified_tls;
    MirrorUse use = MirrorUse::all;
  };
  struct Registry {
    std::string prefix;    // "quay.io/org", "*.example.com"
    std::string location;  // replaces the prefix; empty: the name stays as it is
    Transport transport = Transport::verified_tls;
    bool blocked = false;
    std::vector<Mirror> mirrors;
  };

private:
  std::vector<Registry> registries_;
};

// Whether `authority` (host, optional port) is this machine by its very name: 127.0.0.0/8, ::1,
// localhost.
[[nodiscard]] bool is_loopback(std::string_view authority);

}  // namespace daiv::images
