#include "images/docker_config.hpp"

#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include <algorithm>

namespace daiv::images {
namespace {

using Json = nlohmann::json;

constexpr std::string_view hub = "docker.io";
constexpr std::string_view hub_server = "https://index.docker.io/v1/";
// The user name by which a helper says that the secret is an identity token
// (docker-credential-helpers, README).
constexpr std::string_view token_user = "<token>";

std::string text_at(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r') || text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty() || text.size() % 4 != 0 || text.size() > max_docker_config_bytes)
    return std::nullopt;
  const auto padding = static_cast<std::size_t>(std::count(text.end() - 2, text.end(), '='));
  std::string raw(text.size() / 4 * 3, '\0');
  const auto length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(raw.data()),
                                      reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  raw.resize(static_cast<std::size_t>(length) - padding);
  return raw;
}

// A credential goes into a header of ours: a line end in it would begin another one.
bool is_one_line(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

bool is_usable(const Credentials& credentials) {
  const bool has_some = !credentials.username.empty() || !credentials.identity_token.empty() ||
                        !credentials.registry_token.empty();
  return has_some && is_one_line(credentials.username) && is_one_line(credentials.password) &&
         is_one_line(credentials.identity_token) && is_one_line(credentials.registry_token);
}

std::optional<Credentials> entry_of(const Json& entry) {
  if (!entry.is_object()) return std::nullopt;
  Credentials credentials{.username = text_at(entry, "username"),
                          .password = text_at(entry, "password"),
                          .identity_token = text_at(entry, "identitytoken"),
                          .registry_token = text_at(entry, "registrytoken")};
  if (const auto decoded = decode_base64(text_at(entry, "auth"))) {
    // The first colon ends the name: a password may have more of them.
    const auto colon = decoded->find(':');
    if (colon == std::string::npos) return std::nullopt;
    credentials.username = decoded->substr(0, colon);
    credentials.password = decoded->substr(colon + 1);
    // Docker writes and strips NUL padding.
    while (credentials.password.ends_with('\0')) credentials.password.pop_back();
  }
  if (credentials.username == token_user && credentials.identity_token.empty()) {
    credentials.identity_token = std::exchange(credentials.password, {});
  }
  if (!is_usable(credentials)) return std::nullopt;
  return credentials;
}

// "https://index.docker.io/v1/" → "docker.io", "https://host/v2" → "host", "quay.io/org" stays.
std::string normalize(std::string_view key) {
  bool had_scheme = false;
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) {
      key.remove_prefix(scheme.size());
      had_scheme = true;
    }
  }
  while (key.ends_with('/')) key.remove_suffix(1);
  const auto host = key.substr(0, key.find('/'));
  if (host == "index.docker.io" || host == "registry-1.docker.io") return std::string(hub);
  // With a scheme the path is the API's version, not a repository (docker's ConvertToHostname).
  const auto path = key.substr(host.size());
  if (had_scheme || path == "/v1" || path == "/v2") return std::string(host);
  return std::string(key);
}

// Calls `look` with `name` and each shorter path down to the host, until it says yes.
template <typename Look>
auto longest_prefix(std::string_view name, Look look) -> decltype(look(std::string_view())) {
  for (;;) {
    if (auto found = look(name)) return found;
    const auto slash = name.rfind('/');
    if (slash == std::string_view::npos) return std::nullopt;
    name = name.substr(0, slash);
  }
}

}  // namespace

std::expected<DockerConfig, ParseError> DockerConfig::parse(std::string_view json) {
  const auto document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return std::unexpected(ParseError{"not a JSON object"});
  DockerConfig config;
  config.store_ = text_at(document, "credsStore");
  if (const auto auths = document.find("auths"); auths != document.end() && auths->is_object()) {
    for (const auto& [key, entry] : auths->items()) {
      if (auto credentials = entry_of(entry))
        config.auths_.insert_or_assign(normalize(key), *std::move(credentials));
    }
  }
  if (const auto helpers = document.find("credHelpers");
      helpers != document.end() && helpers->is_object()) {
    for (const auto& [key, helper] : helpers->items()) {
      if (helper.is_string())
        config.helpers_.insert_or_assign(normalize(key), helper.get<std::string>());
    }
  }
  return config;
}

std::optional<Credentials> DockerConfig::find(std::string_view name) const {
  return longest_prefix(name, [&](std::string_view prefix) -> std::optional<Credentials> {
    const auto entry = auths_.find(prefix);
    if (entry == auths_.end()) return std::nullopt;
    return entry->second;
  });
}

std::optional<DockerConfig::HelperCall> DockerConfig::find_helper(std::string_view name) const {
  const auto server_of = [](std::string_view prefix) {
    return std::string(prefix == hub ? hub_server : prefix);
  };
  const auto own = longest_prefix(name, [&](std::string_view prefix) -> std::optional<HelperCall> {
    const auto entry = helpers_.find(prefix);
    // An empty name turns the store off for this registry.
    if (entry == helpers_.end()) return std::nullopt;
    return HelperCall{.helper = entry->second, .server = server_of(prefix)};
  });
  if (own) return own->helper.empty() ? std::nullopt : own;
  if (store_.empty()) return std::nullopt;
  return HelperCall{.helper = store_, .server = server_of(name.substr(0, name.find('/')))};
}

std::optional<Credentials> parse_helper_output(std::string_view output) {
  if (output.size() > max_helper_output_bytes) return std::nullopt;
  const auto document = Json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return std::nullopt;
  Credentials credentials{.username = text_at(document, "Username"),
                          .password = text_at(document, "Secret"),
                          .identity_token = {},
                          .registry_token = {}};
  if (credentials.username == token_user) {
    credentials.username.clear();
    credentials.identity_token = std::exchange(credentials.password, {});
  }
  if (!is_usable(credentials)) return std::nullopt;
  return credentials;
}

}  // namespace daiv::images
