#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "images/auth_challenge.hpp"
#include "images/docker_config.hpp"
#include "images/http_transfer.hpp"
#include "images/registries_conf.hpp"
#include "images/registry_client.hpp"
#include "images/retry_policy.hpp"

namespace daiv::images {

// A bearer token as a token server gives it (Docker registry v2 token authentication).
struct TokenAnswer {
  std::string token;
  std::chrono::seconds lifetime{60};
};
// Empty where there is no usable token in it. A life that is missing or odd is 60 s, the protocol's
// default.
std::optional<TokenAnswer> parse_token_answer(std::string_view json);

// Answers registries' challenges and remembers the answers. Thread-safe; no lock is held while a
// server is asked.
class RegistryAuth {
public:
  // Both outlive this.
  RegistryAuth(const RegistrySettings& settings, HttpTransfer& http);

  // What was done for one request so far: each challenge is answered once, so that no server can
  // keep us going.
  struct Attempts {
    std::set<std::string> answered;
    bool used_credentials = false;
    std::string helper_note;  // why a credential helper was of no use; empty: none
  };

  // The value for Authorization that served last time, if it still does; empty: none.
  [[nodiscard]] std::string current(const PullSource& source);

  // The next value for Authorization after `source`, reached by `scheme`, answered 401 with
  // `fields` to a request that had `used`. Empty optional: nothing more can be tried. Throws
  // ImageError where the token server is out of reach, busy, or refuses the credentials.
  std::optional<std::string> answer(const PullSource& source, const std::string& scheme,
                                    const std::vector<std::string>& fields, const std::string& used,
                                    Attempts& attempts, const std::stop_token& stop);

private:
  struct Cached {
    std::string authorization;
    std::chrono::steady_clock::time_point good_until;
  };

  std::optional<Credentials> find_credentials(const PullSource& source, Attempts& attempts) const;
  std::optional<std::string> answer_basic(const PullSource& source, Attempts& attempts);
  std::optional<std::string> answer_bearer(const PullSource& source, const std::string& scheme,
                                           const AuthChallenge& challenge, Attempts& attempts,
                                           const std::stop_token& stop);
  TokenAnswer fetch_token(const PullSource& source, const AuthChallenge& challenge,
                          const std::optional<Credentials>& credentials,
                          const std::stop_token& stop);
  void check_realm(const PullSource& source, const std::string& scheme,
                   const std::string& realm) const;
  void remember(const PullSource& source, const std::string& authorization,
                std::chrono::seconds lifetime);

  const RegistrySettings& settings_;
  HttpTransfer& http_;
  std::mutex mutex_;
  std::map<std::string, Cached> cache_;  // by authority and repository; guarded by mutex_
};

}  // namespace daiv::images
