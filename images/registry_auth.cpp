#include "images/registry_auth.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include <algorithm>

#include "images/registry_error.hpp"
#include "images/registry_request.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

constexpr std::size_t max_token_answer_bytes = std::size_t{1} << 20U;
constexpr std::size_t max_token_bytes = std::size_t{64} << 10U;
constexpr seconds default_lifetime{60};
constexpr seconds longest_lifetime{24 * 3600};
// Basic credentials are looked up anew after this, so that a change of the file shows.
constexpr seconds basic_lifetime{300};
constexpr std::size_t max_answers = 4;  // challenges that one request may cost
constexpr std::size_t max_cached = 1024;

std::string encode_base64(std::string_view text) {
  std::string encoded(4 * ((text.size() + 2) / 3) + 1, '\0');
  const auto length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                      reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()));
  encoded.resize(static_cast<std::size_t>(length));
  return encoded;
}

std::string basic_authorization(std::string_view user, std::string_view secret) {
  return "Basic " + encode_base64(fmt::format("{}:{}", user, secret));
}

std::string cache_key(const PullSource& source) {
  return source.authority + "\n" + source.repository;
}

// A token becomes a header of ours: nothing but visible ASCII (RFC 6750 §2.1).
bool is_sendable(std::string_view token) {
  return !token.empty() && token.size() <= max_token_bytes &&
         std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; });
}

std::string scope_of(const PullSource& source, const AuthChallenge& challenge) {
  return challenge.scope.empty() ? fmt::format("repository:{}:pull", source.repository)
                                 : challenge.scope;
}

std::string with_query(const PullSource& source, const AuthChallenge& challenge) {
  std::string url = challenge.realm;
  url += url.contains('?') ? '&' : '?';
  if (!challenge.service.empty()) url += "service=" + url_encode(challenge.service) + "&";
  return url + "scope=" + url_encode(scope_of(source, challenge));
}

std::string refresh_form(const PullSource& source, const AuthChallenge& challenge,
                         const Credentials& credentials) {
  return fmt::format(
      "grant_type=refresh_token&client_id=daiv-sandbox&service={}&scope={}&refresh_token={}",
      url_encode(challenge.service), url_encode(scope_of(source, challenge)),
      url_encode(credentials.identity_token));
}

bool is_helper_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  });
}

}  // namespace

std::optional<TokenAnswer> parse_token_answer(std::string_view json) {
  const auto document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return std::nullopt;
  TokenAnswer answer{.token = {}, .lifetime = default_lifetime};
  // "token" is Docker's name for it, "access_token" OAuth2's; where both are there they are the
  // same.
  for (const std::string_view name : {"token", "access_token"}) {
    const auto member = document.find(name);
    if (member != document.end() && member->is_string() && answer.token.empty())
      answer.token = member->get<std::string>();
  }
  if (!is_sendable(answer.token)) return std::nullopt;
  if (const auto life = document.find("expires_in");
      life != document.end() && life->is_number_integer()) {
    const auto wanted = life->is_number_unsigned() ? life->get<std::uint64_t>() : 0;
    if (wanted > 0) {
      answer.lifetime = seconds(
          static_cast<seconds::rep>(std::min<std::uint64_t>(wanted, longest_lifetime.count())));
    }
  }
  return answer;
}

RegistryAuth::RegistryAuth(const RegistrySettings& settings, HttpTransfer& http)
    : settings_(settings), http_(http) {}

std::string RegistryAuth::current(const PullSource& source) {
  const std::lock_guard lock(mutex_);
  const auto cached = cache_.find(cache_key(source));
  if (cached == cache_.end()) return {};
  if (settings_.now() >= cached->second.good_until) {
    cache_.erase(cached);
    return {};
  }
  return cached->second.authorization;
}

void RegistryAuth::remember(const PullSource& source, const std::string& authorization,
                            seconds lifetime) {
  const std::lock_guard lock(mutex_);
  if (cache_.size() >= max_cached) cache_.clear();
  // A tenth less: the token must outlive the way to the server.
  cache_.insert_or_assign(
      cache_key(source),
      Cached{.authorization = authorization, .good_until = settings_.now() + lifetime * 9 / 10});
}

std::optional<std::string> RegistryAuth::answer(const PullSource& source, const std::string& scheme,
                                                const std::vector<std::string>& fields,
                                                const std::string& used, Attempts& attempts,
                                                const std::stop_token& stop) {
  const bool used_was_cached = !used.empty() && attempts.answered.empty();
  // Another thread may have renewed what this one still used.
  if (auto newer = current(source);
      !newer.empty() && newer != used && attempts.answered.insert("newer").second) {
    return newer;
  }
  {
    const std::lock_guard lock(mutex_);
    cache_.erase(cache_key(source));
  }
  auto challenges = parse_challenges(fields);
  // Bearer first: who offers both prefers that its passwords travel less.
  std::ranges::stable_partition(challenges,
                                [](const AuthChallenge& c) { return c.scheme == "bearer"; });
  for (const auto& challenge : challenges) {
    if (attempts.answered.size() >= max_answers) return std::nullopt;
    const auto key = fmt::format("{}\n{}\n{}\n{}", challenge.scheme, challenge.realm,
                                 challenge.service, challenge.scope);
    if (challenge.scheme == "bearer" && !challenge.realm.empty() &&
        attempts.answered.insert(key).second) {
      if (auto authorization = answer_bearer(source, scheme, challenge, attempts, stop))
        return authorization;
    }
    // The realm of Basic is a text for people: it makes no new challenge.
    if (challenge.scheme == "basic" && attempts.answered.insert("basic").second) {
      if (auto authorization = answer_basic(source, attempts)) return authorization;
    }
  }
  // Some answer a stale bearer with a challenge that they would not make otherwise: ask as a
  // stranger.
  if (used_was_cached && attempts.answered.insert("stranger").second) return std::string();
  return std::nullopt;
}

std::optional<std::string> RegistryAuth::answer_basic(const PullSource& source,
                                                      Attempts& attempts) {
  const auto credentials = find_credentials(source, attempts);
  if (!credentials || credentials->username.empty()) return std::nullopt;
  attempts.used_credentials = true;
  auto authorization = basic_authorization(credentials->username, credentials->password);
  remember(source, authorization, basic_lifetime);
  return authorization;
}

std::optional<std::string> RegistryAuth::answer_bearer(const PullSource& source,
                                                       const std::string& scheme,
                                                       const AuthChallenge& challenge,
                                                       Attempts& attempts,
                                                       const std::stop_token& stop) {
  check_realm(source, scheme, challenge.realm);
  const auto credentials = find_credentials(source, attempts);
  if (credentials) attempts.used_credentials = true;
  if (credentials && !credentials->registry_token.empty()) {
    if (!is_sendable(credentials->registry_token)) return std::nullopt;
    return "Bearer " + credentials->registry_token;
  }
  const auto token = fetch_token(source, challenge, credentials, stop);
  auto authorization = "Bearer " + token.token;
  remember(source, authorization, token.lifetime);
  return authorization;
}

// Secrets go to the realm: it must be as safe to reach as the registry that named it.
void RegistryAuth::check_realm(const PullSource& source, const std::string& scheme,
                               const std::string& realm) const {
  const Origin origin = origin_of(realm);
  const bool plain_allowed = source.transport == Transport::insecure && scheme == "http";
  const bool is_good = origin.scheme == "https" || (origin.scheme == "http" && plain_allowed);
  if (!is_good || origin.authority.empty()) {
    throw ImageError(
        ImageFailure::denied,
        fmt::format("{}: registry {} names a token server that must not be used: {}", source.name,
                    source.authority,
                    origin.scheme == "http" ? "it is not https" : "not a web address"));
  }
}

std::optional<Credentials> RegistryAuth::find_credentials(const PullSource& source,
                                                          Attempts& attempts) const {
  if (settings_.auth_file.empty()) return std::nullopt;
  std::string text;
  try {
    text = os::read_file(settings_.auth_file, max_docker_config_bytes);
  } catch (const os::Error& error) {
    if (error.error_number() == ENOENT) return std::nullopt;
    throw ImageError(ImageFailure::internal, fmt::format("credentials: {}", error.what()));
  }
  const auto config = DockerConfig::parse(text);
  if (!config) {
    throw ImageError(ImageFailure::internal,
                     fmt::format("credentials: {}: {}", settings_.auth_file, config.error().text));
  }
  if (const auto call = config->find_helper(source.name); call && settings_.credential) {
    attempts.helper_note =
        fmt::format("the credential helper \"{}\" gave no credentials", call->helper);
    if (!is_helper_name(call->helper)) {
      attempts.helper_note = "the name of the credential helper is malformed";
      return config->find(source.name);
    }
    try {
      if (auto credentials =
              parse_helper_output(settings_.credential(call->helper, call->server))) {
        attempts.helper_note.clear();
        return credentials;
      }
    } catch (const ImageError&) {
      // What the helper said may hold secrets; that it failed is in the note, and without it the
      // pull may still work.
    }
  }
  return config->find(source.name);
}

TokenAnswer RegistryAuth::fetch_token(const PullSource& source, const AuthChallenge& challenge,
                                      const std::optional<Credentials>& credentials,
                                      const std::stop_token& stop) {
  const PullSource server{.authority = origin_of(challenge.realm).authority,
                          .repository = {},
                          .transport = source.transport,
                          .name = source.name};
  const RequestContext context{
      .image = source.name, .used_credentials = credentials.has_value(), .note = {}};
  const auto certificates =
      source.transport == Transport::insecure ? CertificateCheck::skip : CertificateCheck::verify;

  Document document;
  bool ask_by_get = true;
  if (credentials && !credentials->identity_token.empty()) {
    const HttpRequest request{.method = HttpMethod::post_form,
                              .url = challenge.realm,
                              .headers = {"Expect:"},
                              .form = refresh_form(source, challenge, *credentials),
                              .certificates = certificates};
    document = fetch_document(http_, settings_, request, max_token_answer_bytes, stop);
    // Servers without OAuth2 know no POST: they take the token in place of the password.
    ask_by_get = document.result.end == TransferEnd::complete &&
                 (document.result.head.status == 404 || document.result.head.status == 405);
  }
  if (ask_by_get) {
    HttpRequest request{.method = HttpMethod::get,
                        .url = with_query(source, challenge),
                        .headers = {},
                        .form = {},
                        .certificates = certificates};
    if (credentials) {
      const auto& secret =
          credentials->identity_token.empty() ? credentials->password : credentials->identity_token;
      const auto& user =
          credentials->username.empty() ? std::string("<token>") : credentials->username;
      request.headers.push_back("Authorization: " + basic_authorization(user, secret));
    }
    document = fetch_document(http_, settings_, request, max_token_answer_bytes, stop);
  }
  const auto& result = document.result;
  if (result.end != TransferEnd::complete || result.head.status != 200)
    throw registry_error(server, result, context);
  auto answer = parse_token_answer(document.body);
  if (!answer) {
    throw ImageError(
        ImageFailure::unreachable,
        fmt::format("{}: token server {} gave no usable token", source.name, server.authority));
  }
  return *std::move(answer);
}

}  // namespace daiv::images
