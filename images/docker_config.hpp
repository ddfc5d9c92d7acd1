#pragma once

#include <cstddef>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "images/digest.hpp"

namespace daiv::images {

// What a registry knows someone by. Never printed.
struct Credentials {
  std::string username;
  std::string password;
  std::string identity_token;  // an OAuth2 refresh token; stands for username and password
  std::string registry_token;  // a bearer token as it is

  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// A docker config.json or containers-auth.json: credentials, and helpers that know some. Unknown
// keys are ignored. An entry that can't be read is left out: others must go on working.
class DockerConfig {
public:
  DockerConfig() = default;
  static std::expected<DockerConfig, ParseError> parse(std::string_view json);

  // The stored credentials for `name` ("quay.io/org/repo"): the entry of the longest prefix, down
  // to the host. Docker Hub's are found under each of its names.
  [[nodiscard]] std::optional<Credentials> find(std::string_view name) const;

  struct HelperCall {
    std::string helper;  // "secretservice": the program is docker-credential-secretservice
    std::string server;
  };
  // The helper to ask for `name`: its own one in credHelpers, else credsStore.
  [[nodiscard]] std::optional<HelperCall> find_helper(std::string_view name) const;

private:
  std::map<std::string, Credentials, std::less<>> auths_;  // by host and path, without scheme
  std::map<std::string, std::string, std::less<>> helpers_;
  std::string store_;
};

inline constexpr std::size_t max_docker_config_bytes = std::size_t{1} << 20U;
inline constexpr std::size_t max_helper_output_bytes = std::size_t{64} << 10U;

// Reads what `docker-credential-<helper> get` printed. Empty: it says that it has none, or what it
// printed is junk.
std::optional<Credentials> parse_helper_output(std::string_view output);

}  // namespace daiv::images
