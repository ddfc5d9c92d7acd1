#include "api/http_parser.hpp"

#include <boost/beast/http/basic_parser.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

#include "api/chunk_decoder.hpp"
#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

namespace beast = boost::beast;
using beast::error_code;

HttpFault malformed() { return {400, "Invalid HTTP request received."}; }

// Hands what Beast finds in a head to a RequestHead.
class Grammar : public beast::http::basic_parser<true> {
public:
  Grammar() {
    header_limit(max_any_head);
    body_limit(boost::none);  // the connection counts: the limit depends on the route
  }

  RequestHead head;

private:
  static constexpr std::uint32_t max_any_head = 1U << 20;  // RequestParser has the real limit

  void on_request_impl(beast::http::verb, beast::string_view method, beast::string_view target,
                       int version, error_code&) override {
    head.method = std::string(method);
    head.target = std::string(target);
    head.version = version == 11 ? HttpVersion::http_1_1 : HttpVersion::http_1_0;
  }
  void on_response_impl(int, beast::string_view, int, error_code&) override {}
  void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                     error_code&) override {
    head.fields.emplace_back(std::string(name), std::string(value));
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  // Never called: only the head is given to this parser.
  std::size_t on_body_impl(beast::string_view bytes, error_code&) override { return bytes.size(); }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view bytes, error_code&) override {
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}
};

// Why the head, all of it up to and with the empty line, is refused before Beast reads it; empty
// where it is not.
std::optional<HttpFault> check_lines(std::string_view head, const HeadLimits& limits) {
  if (head.find('\0') != std::string_view::npos) return malformed();
  if (head.substr(0, head.find("\r\n")).size() > limits.max_target_bytes + 32)
    return HttpFault{414, "Request target too long."};
  std::size_t lines = 0;
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos;
       at = head.find("\r\n", at + 2)) {
    ++lines;
    const char next = at + 2 < head.size() ? head[at + 2] : '\0';
    if (next == ' ' || next == '\t') return malformed();  // RFC 9112, section 5.2: obsolete folding
  }
  if (lines > limits.max_fields + 2) return HttpFault{431, "Too many header fields."};
  return std::nullopt;
}

// A line that ends in LF alone can't become part of a well-formed head any more.
bool has_bare_line_feed(std::string_view bytes) {
  for (std::size_t at = bytes.find('\n'); at != std::string_view::npos;
       at = bytes.find('\n', at + 1))
    if (at == 0 || bytes[at - 1] != '\r') return true;
  return false;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::size_t count_fields(const RequestHead& head, std::string_view name) {
  const auto same = [name](const auto& field) {
    return wire::equal_ignoring_case(field.first, name);
  };
  return static_cast<std::size_t>(std::count_if(head.fields.begin(), head.fields.end(), same));
}

// How the body is framed, decided without any leniency (RFC 9112, section 6.3).
bool read_framing(RequestHead& head) {
  const std::size_t lengths = count_fields(head, "Content-Length");
  const std::size_t codings = count_fields(head, "Transfer-Encoding");
  if (lengths + codings > 1) return false;
  if (codings == 1) {
    head.has_body = true;
    return head.version == HttpVersion::http_1_1 &&
           wire::equal_ignoring_case(*head.find("Transfer-Encoding"), "chunked");
  }
  if (lengths == 0) return true;
  const std::string_view text = *head.find("Content-Length");
  std::uint64_t length = 0;
  if (!all_digits(text) || text.size() > 18) return false;
  std::from_chars(text.data(), text.data() + text.size(), length);
  head.content_length = length;
  head.has_body = length > 0;
  return true;
}

bool read_expectation(RequestHead& head) {
  const std::optional<std::string_view> expectation = head.find("Expect");
  if (!expectation) return true;
  if (!wire::equal_ignoring_case(*expectation, "100-continue")) return false;
  head.expects_continue = head.version == HttpVersion::http_1_1 && head.has_body;
  return true;
}

}  // namespace

std::optional<std::string_view> RequestHead::find(std::string_view name) const {
  for (const auto& [field, value] : fields)
    if (wire::equal_ignoring_case(field, name)) return value;
  return std::nullopt;
}

class RequestParser::Impl {
public:
  explicit Impl(HeadLimits limits) : limits_(limits) {}

  std::expected<std::size_t, HttpFault> feed(std::string_view bytes, std::string& body) {
    return grammar_.is_header_done() ? feed_body(bytes, body) : feed_head(bytes);
  }

  [[nodiscard]] bool done() const noexcept {
    return grammar_.is_header_done() && (chunks_ ? chunks_->done() : remaining_ == 0);
  }
  [[nodiscard]] const Grammar& grammar() const noexcept { return grammar_; }

private:
  std::expected<std::size_t, HttpFault> feed_head(std::string_view bytes) {
    // RFC 9112, section 2.2: empty lines before the request line are ignored.
    std::size_t skipped = 0;
    while (bytes.substr(skipped).starts_with("\r\n")) skipped += 2;
    bytes.remove_prefix(skipped);
    const std::size_t end = bytes.find("\r\n\r\n");
    const bool complete = end != std::string_view::npos;
    const std::size_t size = complete ? end + 4 : bytes.size();
    if (has_bare_line_feed(bytes.substr(0, size))) return std::unexpected(malformed());
    if (size > limits_.max_head_bytes)
      return std::unexpected(HttpFault{431, "Request header fields too large."});
    if (!complete) return skipped;
    const std::string_view head = bytes.substr(0, size);
    if (auto fault = check_lines(head, limits_)) return std::unexpected(*fault);
    error_code error;
    const std::size_t used = grammar_.put(boost::asio::buffer(head.data(), head.size()), error);
    if (error || !grammar_.is_header_done() || used != size) return std::unexpected(malformed());
    if (!finish_head()) return std::unexpected(malformed());
    return skipped + size;
  }

  bool finish_head() {
    RequestHead& head = grammar_.head;
    if (!read_framing(head) || !read_expectation(head)) return false;
    const std::size_t hosts = count_fields(head, "Host");
    if (hosts > 1 || (hosts == 0 && head.version == HttpVersion::http_1_1)) return false;
    head.keep_alive = grammar_.keep_alive();
    remaining_ = head.content_length.value_or(0);
    if (head.has_body && !head.content_length) chunks_.emplace(limits_.max_chunk_head_bytes);
    return true;
  }

  std::expected<std::size_t, HttpFault> feed_body(std::string_view bytes, std::string& body) {
    if (chunks_) {
      const auto used = chunks_->feed(bytes, body);
      if (!used) return std::unexpected(malformed());
      return *used;
    }
    const std::size_t size = std::min<std::uint64_t>(remaining_, bytes.size());
    body += bytes.substr(0, size);
    remaining_ -= size;
    return size;
  }

  HeadLimits limits_;
  Grammar grammar_;  // for the head alone
  std::optional<ChunkDecoder> chunks_;
  std::uint64_t remaining_ = 0;  // of a body with a length
};

RequestParser::RequestParser(HeadLimits limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

std::expected<std::size_t, HttpFault> RequestParser::feed(std::string_view bytes,
                                                          std::string& body) {
  return impl_->feed(bytes, body);
}
bool RequestParser::head_done() const noexcept { return impl_->grammar().is_header_done(); }
bool RequestParser::done() const noexcept { return impl_->done(); }
const RequestHead& RequestParser::head() const noexcept { return impl_->grammar().head; }

}  // namespace daiv::api
