#include "images/http_transfer.hpp"

#include <curl/curl.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "images/registries_conf.hpp"
#include "images/registry_certificates.hpp"
#include "os/error.hpp"
#include "wire/ascii.hpp"

namespace daiv::images {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_head_bytes = std::size_t{256} << 10U;
constexpr std::size_t min_progress_bytes = std::size_t{16} << 10U;
constexpr std::size_t max_idle_connections = 16;
constexpr long receive_buffer_bytes = 256L << 10;
constexpr std::chrono::milliseconds longest_poll{1000};

struct ListFree {
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};
using ListPtr = std::unique_ptr<curl_slist, ListFree>;

ListPtr make_list(const std::vector<std::string>& lines) {
  ListPtr list;
  for (const auto& line : lines) {
    auto* longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) throw os::Error(ENOMEM, "curl_slist_append", "header");
    static_cast<void>(list.release());
    list.reset(longer);
  }
  return list;
}

template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
  if (curl_easy_setopt(easy, option, value) != CURLE_OK)
    throw os::Error(EINVAL, "curl_easy_setopt", "option");
}

// The status of "HTTP/1.1 206 Partial Content".
int status_of(std::string_view line) {
  const auto space = line.find(' ');
  if (space == std::string_view::npos || line.size() < space + 4) return 0;
  int status = 0;
  for (const char c : line.substr(space + 1, 3)) {
    if (c < '0' || c > '9') return 0;
    status = status * 10 + (c - '0');
  }
  return status;
}

TransferEnd end_of(CURLcode code) {
  // No switch: CURLcode has a hundred enumerators, and all but these mean the same here.
  if (code == CURLE_OK) return TransferEnd::complete;
  if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY)
    return TransferEnd::not_resolved;
  if (code == CURLE_COULDNT_CONNECT || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_PROXY) {
    return TransferEnd::not_connected;
  }
  if (code == CURLE_SSL_CONNECT_ERROR) return TransferEnd::no_tls;
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CERTPROBLEM ||
      code == CURLE_SSL_CACERT_BADFILE) {
    return TransferEnd::certificate_refused;
  }
  if (code == CURLE_WEIRD_SERVER_REPLY || code == CURLE_UNSUPPORTED_PROTOCOL ||
      code == CURLE_URL_MALFORMAT) {
    return TransferEnd::malformed;
  }
  return TransferEnd::cut;
}

}  // namespace

std::optional<std::string> HttpHead::find(std::string_view name) const {
  const auto field = std::ranges::find(
      fields, name, [](const auto& pair) { return std::string_view(pair.first); });
  if (field == fields.end()) return std::nullopt;
  return field->second;
}

std::vector<std::string> HttpHead::find_all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : fields) {
    if (key == name) values.push_back(value);
  }
  return values;
}

std::string_view describe(TransferEnd end) {
  switch (end) {
    case TransferEnd::complete:
      return "complete";
    case TransferEnd::stopped:
      return "stopped";
    case TransferEnd::cancelled:
      return "cancelled";
    case TransferEnd::not_resolved:
      return "its name can't be resolved";
    case TransferEnd::not_connected:
      return "can't connect";
    case TransferEnd::no_tls:
      return "the TLS handshake failed";
    case TransferEnd::certificate_refused:
      return "its certificate does not verify";
    case TransferEnd::cut:
      return "the connection broke";
    case TransferEnd::stalled:
      return "no data came for too long";
    case TransferEnd::malformed:
      return "the answer is not valid HTTP";
  }
  return "unknown";
}

// A multi handle, which holds the connections: unlike curl_easy_perform(3), a loop of ours can be
// woken at once by a stop. Each request has an easy handle of its own: after a failure
// curl_easy_reset(3) leaves the old buffer in place.
struct HttpTransfer::Connection {
  Connection() : multi(curl_multi_init()) {
    if (multi == nullptr) throw os::Error(ENOMEM, "curl_multi_init", "connection");
  }
  ~Connection() { curl_multi_cleanup(multi); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  CURLM* multi;
};

// An easy handle that takes part in a multi handle.
class HttpTransfer::Easy {
public:
  explicit Easy(CURLM* multi) : multi_(multi), easy_(curl_easy_init()) {
    if (easy_ == nullptr) throw os::Error(ENOMEM, "curl_easy_init", "request");
  }
  // Removing an unfinished transfer closes its connection; that of a finished one stays for the
  // next request.
  ~Easy() {
    curl_multi_remove_handle(multi_, easy_);
    curl_easy_cleanup(easy_);
  }
  Easy(const Easy&) = delete;
  Easy& operator=(const Easy&) = delete;

  void start() {
    if (curl_multi_add_handle(multi_, easy_) != CURLM_OK)
      throw os::Error(ENOMEM, "curl_multi_add_handle", "request");
  }
  [[nodiscard]] CURL* get() const noexcept { return easy_; }

private:
  CURLM* multi_;
  CURL* easy_;
};

// The state of one request: what libcurl's callbacks work on.
struct HttpTransfer::Exchange {
  HttpReceiver& receiver;
  ListPtr headers = {};
  RegistryCertificates certificates = {};
  HttpHead head = {};
  std::size_t head_bytes = 0;
  bool head_done = false;
  bool too_many_fields = false;
  Flow flow = Flow::go_on;
  std::exception_ptr failure = {};
  std::size_t unmarked_bytes = 0;
  Clock::time_point last_progress = Clock::now();

  // Exceptions must not cross libcurl: they wait in `failure`.
  template <typename Action>
  bool guarded(Action action) noexcept {
    try {
      flow = action();
    } catch (...) {
      failure = std::current_exception();
    }
    return !failure && flow == Flow::go_on;
  }

  void mark_progress(std::size_t bytes) {
    unmarked_bytes += bytes;
    if (unmarked_bytes < min_progress_bytes) return;
    unmarked_bytes = 0;
    last_progress = Clock::now();
  }

  Flow take_header_line(std::string_view line) {
    head_bytes += line.size();
    if (head_bytes > max_head_bytes) {
      too_many_fields = true;
      return Flow::stop;
    }
    if (head_done) return Flow::go_on;  // trailer fields (RFC 9112 §7.1.2)
    if (line.starts_with("HTTP/")) {
      head = HttpHead{.status = status_of(line), .fields = {}};
      return Flow::go_on;
    }
    const auto text = wire::trim_lines(line);
    if (text.empty()) {
      if (head.status < 200) return Flow::go_on;  // 1xx: the real one follows
      head_done = true;
      last_progress = Clock::now();
      return receiver.on_head(head);
    }
    if (const auto colon = text.find(':'); colon != std::string_view::npos) {
      head.fields.emplace_back(wire::lower(wire::trim_lines(text.substr(0, colon))),
                               wire::trim_lines(text.substr(colon + 1)));
    }
    return Flow::go_on;
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count,
                               void* self) noexcept {
    auto& exchange = *static_cast<Exchange*>(self);
    const std::string_view line(data, size * count);
    return exchange.guarded([&] { return exchange.take_header_line(line); }) ? line.size() : 0;
  }

  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) noexcept {
    auto& exchange = *static_cast<Exchange*>(self);
    const std::string_view bytes(data, size * count);
    const auto before = Clock::now();
    const bool go_on = exchange.guarded(
        [&] { return exchange.receiver.on_body(std::as_bytes(std::span(bytes))); });
    // Whatever time the receiver took was not the peer's silence.
    exchange.last_progress += Clock::now() - before;
    exchange.mark_progress(bytes.size());
    return go_on ? bytes.size() : 0;
  }

  static CURLcode on_tls_context(CURL* /*easy*/, void* context, void* self) noexcept {
    const auto& exchange = *static_cast<Exchange*>(self);
    for (const auto& file : exchange.certificates.authorities) {
      if (SSL_CTX_load_verify_file(static_cast<SSL_CTX*>(context), file.c_str()) != 1)
        return CURLE_SSL_CACERT_BADFILE;
    }
    return CURLE_OK;
  }
};

HttpTransfer::HttpTransfer(HttpSettings settings) : settings_(std::move(settings)) {
  // Thread-safe since libcurl 7.84; counts its callers, so that others in the process don't matter.
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    throw os::Error(ENOMEM, "curl_global_init", "libcurl");
}

HttpTransfer::~HttpTransfer() {
  idle_.clear();
  curl_global_cleanup();
}

std::unique_ptr<HttpTransfer::Connection> HttpTransfer::acquire() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return std::make_unique<Connection>();
}

void HttpTransfer::release(std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < max_idle_connections) idle_.push_back(std::move(connection));
}

void HttpTransfer::configure(const Easy& handle, const HttpRequest& request,
                             Exchange& exchange) const {
  CURL* easy = handle.get();
  const Origin origin = origin_of(request.url);
  set(easy, CURLOPT_URL, request.url.c_str());
  set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(easy, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy, CURLOPT_NOSIGNAL, 1L);  // signals and threads don't mix
  set(easy, CURLOPT_BUFFERSIZE, receive_buffer_bytes);
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(settings_.connect_timeout.count()));
  set(easy, CURLOPT_USERAGENT, settings_.user_agent.c_str());
  set(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(easy, CURLOPT_HTTPHEADER, exchange.headers.get());
  if (request.method == HttpMethod::head) set(easy, CURLOPT_NOBODY, 1L);
  if (request.method == HttpMethod::post_form) {
    set(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.form.size()));
    set(easy, CURLOPT_POSTFIELDS, request.form.c_str());
  }

  // An empty proxy keeps libcurl from asking the environment. Loopback is never reached through
  // one.
  const std::string& proxy =
      origin.scheme == "https" ? settings_.https_proxy : settings_.http_proxy;
  set(easy, CURLOPT_PROXY, is_loopback(origin.authority) ? "" : proxy.c_str());
  set(easy, CURLOPT_NOPROXY, settings_.no_proxy.c_str());

  const bool verify = request.certificates == CertificateCheck::verify;
  set(easy, CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
  set(easy, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
  // The cache of authorities would carry what on_tls_context adds over to other hosts.
  set(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
  exchange.certificates = find_certificates(settings_.certs_dirs, origin.authority);
  if (!exchange.certificates.authorities.empty()) {
    set(easy, CURLOPT_SSL_CTX_FUNCTION, &Exchange::on_tls_context);
    set(easy, CURLOPT_SSL_CTX_DATA, &exchange);
  }
  if (!exchange.certificates.client_certificate.empty()) {
    set(easy, CURLOPT_SSLCERT, exchange.certificates.client_certificate.c_str());
    set(easy, CURLOPT_SSLKEY, exchange.certificates.client_key.c_str());
  }

  set(easy, CURLOPT_HEADERFUNCTION, &Exchange::on_header);
  set(easy, CURLOPT_HEADERDATA, &exchange);
  set(easy, CURLOPT_WRITEFUNCTION, &Exchange::on_body);
  set(easy, CURLOPT_WRITEDATA, &exchange);
}

// Drives the transfer until it ended one way or another.
TransferEnd HttpTransfer::run(const Connection& connection, const Exchange& exchange,
                              const std::stop_token& stop) const {
  CURLM* multi = connection.multi;
  const std::stop_callback wake(stop, [multi] { curl_multi_wakeup(multi); });
  for (;;) {
    int running = 0;
    const auto code = curl_multi_perform(multi, &running);
    int left = 0;
    if (const auto* message = curl_multi_info_read(multi, &left); message != nullptr) {
      return end_of(message->data.result);
    }
    if (code != CURLM_OK || running == 0) return TransferEnd::cut;
    if (stop.stop_requested()) return TransferEnd::cancelled;
    const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(
        Clock::now() - exchange.last_progress);
    if (silence >= settings_.no_progress_limit) return TransferEnd::stalled;
    const auto wait = std::min(longest_poll, settings_.no_progress_limit - silence);
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(wait.count()) + 1, nullptr);
  }
}

HttpResult HttpTransfer::perform(const HttpRequest& request, HttpReceiver& receiver,
                                 const std::stop_token& stop) {
  auto connection = acquire();
  Exchange exchange{.receiver = receiver};
  exchange.headers = make_list(request.headers);
  TransferEnd end{};
  {
    Easy easy(connection->multi);
    configure(easy, request, exchange);
    easy.start();
    end = run(*connection, exchange, stop);
  }
  release(std::move(connection));

  if (exchange.failure) std::rethrow_exception(exchange.failure);
  if (exchange.too_many_fields) {
    end = TransferEnd::malformed;
  } else if (exchange.flow == Flow::stop) {
    end = TransferEnd::stopped;
  }
  return HttpResult{.end = end, .head = std::move(exchange.head)};
}

}  // namespace daiv::images
