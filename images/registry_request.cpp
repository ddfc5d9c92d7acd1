#include "images/registry_request.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <random>

#include "os/attack_switches.hpp"

namespace daiv::images {
namespace {

constexpr int max_redirects = 5;
constexpr std::size_t max_discarded_bytes = std::size_t{64} << 10U;
constexpr std::size_t max_known_schemes = 256;
constexpr std::string_view authorization_field = "Authorization: ";

bool is_success(int status) { return status >= 200 && status < 300; }
bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Lets successes through and discards other bodies, up to a length at which a new connection is
// cheaper.
class SuccessOnly final : public HttpReceiver {
public:
  explicit SuccessOnly(HttpReceiver& inner) : inner_(inner) {}

  Flow on_head(const HttpHead& head) override {
    passes_ = is_success(head.status);
    return passes_ ? inner_.on_head(head) : Flow::go_on;
  }
  Flow on_body(std::span<const std::byte> bytes) override {
    if (passes_) return inner_.on_body(bytes);
    discarded_ += bytes.size();
    return discarded_ > max_discarded_bytes ? Flow::stop : Flow::go_on;
  }

private:
  HttpReceiver& inner_;
  bool passes_ = false;
  std::size_t discarded_ = 0;
};

// Keeps a body of bounded size.
class Collector final : public HttpReceiver {
public:
  Collector(Document& document, std::size_t max_bytes)
      : document_(document), max_bytes_(max_bytes) {}

  Flow on_head(const HttpHead& /*head*/) override {
    document_.body.clear();
    return Flow::go_on;
  }
  Flow on_body(std::span<const std::byte> bytes) override {
    if (bytes.size() > max_bytes_ - document_.body.size()) {
      document_.too_large = true;
      return Flow::stop;
    }
    document_.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Flow::go_on;
  }

private:
  Document& document_;
  std::size_t max_bytes_;
};

bool answered(const HttpResult& result) {
  return result.end == TransferEnd::complete || result.end == TransferEnd::stopped;
}

// Repeats `attempt` until it succeeded or is not worth another go.
template <typename Attempt>
Document with_retries(const RegistrySettings& settings, const std::stop_token& stop,
                      Attempt attempt) {
  for (int failures = 1;; ++failures) {
    Document document;
    attempt(document);
    if (document.too_large ||
        (document.result.end == TransferEnd::complete && is_success(document.result.head.status))) {
      return document;
    }
    const auto decision = retry_after(document.result, failures);
    if (decision.verdict == RetryVerdict::give_up) return document;
    wait_before_retry(settings, decision.delay, stop);
  }
}

}  // namespace

void wait_before_retry(const RegistrySettings& settings, std::chrono::milliseconds delay,
                       const std::stop_token& stop) {
  if (stop.stop_requested() || !settings.sleep(delay, stop))
    throw ImageError(ImageFailure::cancelled, "cancelled");
}

RetryDecision retry_after(const HttpResult& result, int failures) {
  thread_local std::minstd_rand generator{std::random_device{}()};
  const double spread = std::uniform_real_distribution<double>(0, 1)(generator);
  return decide_retry(RetryPolicy{}, result, failures, spread, std::chrono::system_clock::now());
}

Followed perform_following(HttpTransfer& http, HttpRequest request, HttpReceiver& receiver,
                           const std::stop_token& stop) {
  Followed followed;
  const bool may_follow = request.method != HttpMethod::post_form;
  for (int redirects = 0;; ++redirects) {
    SuccessOnly filter(receiver);
    followed.result = http.perform(request, filter, stop);
    const auto& head = followed.result.head;
    if (!may_follow || !answered(followed.result) || !is_redirect(head.status)) return followed;

    const auto location = head.find("location");
    const auto target = location ? resolve_url(request.url, *location) : std::nullopt;
    const Origin from = origin_of(request.url);
    const Origin to = target ? origin_of(*target) : Origin{};
    const bool is_downgrade = from.scheme == "https" && to.scheme == "http" &&
                              request.certificates == CertificateCheck::verify;
    if (!target || is_downgrade || redirects == max_redirects) {
      followed.result.end = TransferEnd::malformed;
      return followed;
    }
    if (from != to && os::defence_is_on(os::Defence::bound_credentials)) {
      followed.left_origin = true;
      std::erase_if(request.headers,
                    [](const std::string& line) { return line.starts_with(authorization_field); });
    }
    request.url = *target;
  }
}

Document fetch_document(HttpTransfer& http, const RegistrySettings& settings,
                        const HttpRequest& request, std::size_t max_bytes,
                        const std::stop_token& stop) {
  return with_retries(settings, stop, [&](Document& document) {
    Collector collector(document, max_bytes);
    auto followed = perform_following(http, request, collector, stop);
    document.result = std::move(followed.result);
    document.left_origin = followed.left_origin;
  });
}

// https first. A registry that is allowed to have none, and does not speak TLS, is asked again by
// http; what it speaks is remembered.
Followed RegistryRequester::send(const RepositoryRequest& request, const std::string& authorization,
                                 HttpReceiver& receiver, std::string& scheme,
                                 const std::stop_token& stop) {
  const auto& source = request.source;
  const bool is_insecure = source.transport == Transport::insecure;
  std::string known;
  if (is_insecure) {
    const std::lock_guard lock(mutex_);
    known = schemes_[source.authority];
  }
  HttpRequest http_request{
      .method = request.method,
      .url = {},
      .headers = request.headers,
      .form = {},
      .certificates = is_insecure ? CertificateCheck::skip : CertificateCheck::verify};
  if (!authorization.empty())
    http_request.headers.push_back(std::string(authorization_field) + authorization);

  scheme = known.empty() ? "https" : known;
  const auto url_by = [&](const std::string& by) {
    return fmt::format("{}://{}/v2/{}/{}", by, source.authority, source.repository, request.path);
  };
  http_request.url = url_by(scheme);
  auto followed = perform_following(http_, http_request, receiver, stop);
  const auto end = followed.result.end;
  const bool may_be_http =
      end == TransferEnd::no_tls || end == TransferEnd::not_connected || end == TransferEnd::cut;
  if (is_insecure && known.empty() && followed.result.head.status == 0 && may_be_http &&
      !followed.left_origin) {
    scheme = "http";
    http_request.url = url_by(scheme);
    followed = perform_following(http_, http_request, receiver, stop);
  }
  if (is_insecure && known.empty() && followed.result.head.status != 0) {
    const std::lock_guard lock(mutex_);
    if (schemes_.size() >= max_known_schemes) schemes_.clear();
    schemes_[source.authority] = scheme;
  }
  return followed;
}

HttpResult RegistryRequester::perform(const RepositoryRequest& request, HttpReceiver& receiver,
                                      RegistryAuth::Attempts& attempts,
                                      const std::stop_token& stop) {
  std::string authorization = auth_.current(request.source);
  // Ends, because `attempts` lets no challenge be answered twice and only a few at all.
  for (;;) {
    std::string scheme;
    auto followed = send(request, authorization, receiver, scheme, stop);
    auto& result = followed.result;
    // Another host's challenge is not answered: it would get the registry's credentials
    // (CVE-2020-15157).
    if (!answered(result) || result.head.status != 401 || followed.left_origin)
      return std::move(result);
    auto next = auth_.answer(request.source, scheme, result.head.find_all("www-authenticate"),
                             authorization, attempts, stop);
    if (!next) return std::move(result);
    authorization = *std::move(next);
  }
}

Document RegistryRequester::fetch(const RepositoryRequest& request, std::size_t max_bytes,
                                  RegistryAuth::Attempts& attempts, const std::stop_token& stop) {
  return with_retries(settings_, stop, [&](Document& document) {
    attempts = {};
    Collector collector(document, max_bytes);
    document.result = perform(request, collector, attempts, stop);
  });
}

}  // namespace daiv::images
