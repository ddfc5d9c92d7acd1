#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "images/http_transfer.hpp"
#include "images/registries_conf.hpp"
#include "images/registry_auth.hpp"
#include "images/registry_client.hpp"
#include "images/retry_policy.hpp"

namespace daiv::images {

// Waits as `settings` has it. Throws ImageError{cancelled} where `stop` was requested.
void wait_before_retry(const RegistrySettings& settings, std::chrono::milliseconds delay,
                       const std::stop_token& stop);

// The decision for `result` after `failures` in a row, with randomness and the time of day filled
// in.
RetryDecision retry_after(const HttpResult& result, int failures);

// The final response of a request whose redirects were followed.
struct Followed {
  HttpResult result;
  bool left_origin = false;  // it came from another host, which saw no Authorization
};

// Performs `request` and follows up to 5 redirects of a GET or HEAD. Authorization stays behind
// when scheme, host or port change; https never becomes http unless certificates are not checked
// anyway. `receiver` gets responses with a 2xx status alone: others have their body discarded.
Followed perform_following(HttpTransfer& http, HttpRequest request, HttpReceiver& receiver,
                           const std::stop_token& stop);

// A whole small response.
struct Document {
  HttpResult result;
  bool left_origin = false;
  bool too_large = false;
  std::string body;
};
// Fetches at most `max_bytes`, with redirects and the usual retries.
Document fetch_document(HttpTransfer& http, const RegistrySettings& settings,
                        const HttpRequest& request, std::size_t max_bytes,
                        const std::stop_token& stop);

// One request below a repository of a registry: "manifests/latest".
struct RepositoryRequest {
  const PullSource& source;
  HttpMethod method = HttpMethod::get;
  std::string path;
  std::vector<std::string> headers;
};

// Sends requests to registries: finds out whether they speak https or http, answers challenges,
// follows redirects. Thread-safe.
class RegistryRequester {
public:
  RegistryRequester(const RegistrySettings& settings, HttpTransfer& http, RegistryAuth& auth)
      : settings_(settings), http_(http), auth_(auth) {}

  // No retries but for challenges; `attempts` says afterwards what was tried. The same receiver
  // rules as above.
  HttpResult perform(const RepositoryRequest& request, HttpReceiver& receiver,
                     RegistryAuth::Attempts& attempts, const std::stop_token& stop);

  // A small document, with retries.
  Document fetch(const RepositoryRequest& request, std::size_t max_bytes,
                 RegistryAuth::Attempts& attempts, const std::stop_token& stop);

private:
  Followed send(const RepositoryRequest& request, const std::string& authorization,
                HttpReceiver& receiver, std::string& scheme, const std::stop_token& stop);

  const RegistrySettings& settings_;
  HttpTransfer& http_;
  RegistryAuth& auth_;
  std::mutex mutex_;
  std::map<std::string, std::string>
      schemes_;  // of insecure registries, as found out; guarded by mutex_
};

}  // namespace daiv::images
