#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace daiv::images {

enum class HttpMethod { get, head, post_form };
enum class CertificateCheck { verify, skip };

struct HttpRequest {
  HttpMethod method = HttpMethod::get;
  std::string url;                   // http or https; user information in it is not sent
  std::vector<std::string> headers;  // "Name: value", without line ends
  std::string form;                  // body of post_form
  CertificateCheck certificates = CertificateCheck::verify;
};

// Status and header fields of the final response.
struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case, values trimmed

  // The first field of `name` (lower case); empty optional where there is none.
  [[nodiscard]] std::optional<std::string> find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> find_all(std::string_view name) const;
};

enum class Flow { go_on, stop };

// Takes a response as it comes; called on the performing thread. What it throws ends the transfer
// and comes out of perform().
class HttpReceiver {
public:
  virtual ~HttpReceiver() = default;
  virtual Flow on_head(const HttpHead& head) = 0;
  virtual Flow on_body(std::span<const std::byte> bytes) = 0;
};

// How a transfer ended. All but `complete` and `stopped` may leave a part of the response
// delivered.
enum class TransferEnd {
  complete,
  stopped,              // the receiver said so
  cancelled,            // the stop token said so
  not_resolved,         // no such host
  not_connected,        // refused, unreachable, timed out
  no_tls,               // the peer does not speak TLS, or the handshake failed
  certificate_refused,  // the peer's certificate does not verify
  cut,                  // the connection ended before the response did
  stalled,              // the no-progress limit
  malformed,            // not HTTP, or more header fields than a sane server sends
};

struct HttpResult {
  TransferEnd end = TransferEnd::complete;
  HttpHead head;  // status 0: no response
};

// A text for the user; without URL, as those may carry signatures.
[[nodiscard]] std::string_view describe(TransferEnd end);

struct HttpSettings {
  std::string https_proxy = {};
  std::string http_proxy = {};
  std::string no_proxy = {};
  // <dir>/<host:port>/{*.crt,*.cert,*.key}, as dockerd(8) reads them.
  std::vector<std::string> certs_dirs = {};
  std::string user_agent = {};
  std::chrono::milliseconds no_progress_limit{60'000};
  std::chrono::milliseconds connect_timeout{15'000};
};

// Blocking HTTP/1.1 on libcurl. Thread-safe; connections are kept and shared between calls.
// Redirects are not followed, cookies and netrc are not used, no content coding is asked for, and
// the process's environment is not read.
class HttpTransfer {
public:
  explicit HttpTransfer(HttpSettings settings);
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  // Performs `request`. Progress is at least 16 KiB (or the end) within the no-progress limit; time
  // that the receiver takes does not count. Throws os::Error where libcurl itself fails, and what
  // the receiver throws.
  HttpResult perform(const HttpRequest& request, HttpReceiver& receiver,
                     const std::stop_token& stop);

private:
  struct Connection;
  class Easy;
  struct Exchange;
  std::unique_ptr<Connection> acquire();
  void release(std::unique_ptr<Connection> connection);
  void configure(const Easy& handle, const HttpRequest& request, Exchange& exchange) const;
  TransferEnd run(const Connection& connection, const Exchange& exchange,
                  const std::stop_token& stop) const;

  HttpSettings settings_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;  // guarded by mutex_
};

// "https", "registry.example.com:5000" of a URL, with the default port left out; empty parts where
// it is none.
struct Origin {
  std::string scheme;
  std::string authority;
  friend bool operator==(const Origin&, const Origin&) = default;
};
[[nodiscard]] Origin origin_of(const std::string& url);

// `location` as seen from `base` (RFC 3986 §5), without user information and fragment; empty where
// it is malformed or neither http nor https.
[[nodiscard]] std::optional<std::string> resolve_url(const std::string& base,
                                                     const std::string& location);

// Percent-encodes everything but unreserved characters (RFC 3986 §2.3).
[[nodiscard]] std::string url_encode(std::string_view text);

}  // namespace daiv::images
