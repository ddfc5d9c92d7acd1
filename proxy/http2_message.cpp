#include "proxy/http2_message.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "proxy/http_body.hpp"
#include "wire/ascii.hpp"

namespace daiv::proxy {
namespace {

// RFC 9113 §8.2.2.
constexpr std::array connection_fields{"connection", "keep-alive", "proxy-connection",
                                       "transfer-encoding", "upgrade"};

bool is_connection_field(std::string_view name) {
  return std::ranges::any_of(
      connection_fields, [&](const char* other) { return wire::equal_ignoring_case(name, other); });
}

std::unexpected<HttpFault> fault(std::string text, int status = 400) {
  return std::unexpected(HttpFault{status, std::move(text)});
}

struct PseudoFields {
  std::optional<std::string> method, scheme, authority, path, status;

  std::optional<std::string>* find(std::string_view name) {
    if (name == ":method") return &method;
    if (name == ":scheme") return &scheme;
    if (name == ":authority") return &authority;
    if (name == ":path") return &path;
    if (name == ":status") return &status;
    return nullptr;
  }
};

// Takes the pseudo-header fields out, and refuses what the others may not be.
std::expected<PseudoFields, HttpFault> split(std::vector<Field>& fields) {
  PseudoFields pseudo;
  std::vector<Field> rest;
  for (Field& field : fields) {
    if (field.name.starts_with(':')) {
      auto* known = pseudo.find(field.name);
      if (known == nullptr || *known || !rest.empty()) return fault("bad pseudo-header field");
      *known = std::move(field.value);
      continue;
    }
    if (!wire::is_token(field.name) || field.name != wire::lower(field.name))
      return fault("bad header name");
    if (!is_field_value(field.value)) return fault("control character in a header value");
    if (is_connection_field(field.name)) return fault("a connection's field in HTTP/2");
    rest.push_back(std::move(field));
  }
  fields = std::move(rest);
  return pseudo;
}

bool is_target(std::string_view text) {
  return (text.starts_with('/') || text == "*") &&
         std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
}

void append_lowered(std::vector<Field>& to, const std::vector<Field>& fields) {
  for (const auto& [name, value] : fields)
    if (!is_connection_field(name) && !wire::equal_ignoring_case(name, "Host"))
      to.push_back(Field{wire::lower(name), value});
}

}  // namespace

std::expected<RequestHead, HttpFault> read_http2_request(Http2Head head) {
  if (!head.fault.text.empty()) return std::unexpected(std::move(head.fault));
  auto pseudo = split(head.fields);
  if (!pseudo) return std::unexpected(std::move(pseudo.error()));
  if (!pseudo->method || !wire::is_token(*pseudo->method)) return fault("bad method");
  if (wire::equal_ignoring_case(*pseudo->method, "CONNECT"))
    return fault("CONNECT inside a tunnel");
  if (!pseudo->path || !is_target(*pseudo->path)) return fault("bad request target");
  if (pseudo->scheme != "https") return fault("a scheme other than the connection's");
  const auto te = list_of(head.fields, "te");
  if (std::ranges::any_of(te, [](const auto& member) { return member != "trailers"; }))
    return fault("te with other than trailers");
  const auto hosts = values_of(head.fields, "host");
  if (hosts.size() > 1) return fault("more than one Host");
  if (pseudo->authority && !hosts.empty() &&
      !wire::equal_ignoring_case(*pseudo->authority, hosts[0]))
    return fault("Host differs from :authority", 421);
  if (!pseudo->authority && hosts.empty()) return fault("no :authority");
  const std::string authority = pseudo->authority ? *pseudo->authority : std::string(hosts[0]);
  if (!is_field_value(authority)) return fault("bad :authority");
  remove_field(head.fields, "host");
  RequestHead request{std::move(*pseudo->method), std::move(*pseudo->path), 1, {}};
  request.fields.push_back(Field{"Host", authority});
  std::ranges::move(head.fields, std::back_inserter(request.fields));
  if (const auto framing = plan_request_body(request); !framing)
    return std::unexpected(framing.error());
  return request;
}

std::expected<ResponseHead, HttpFault> read_http2_response(Http2Head head) {
  const auto bad = [](const std::string& text) {
    return fault("the origin's header is malformed: " + text, 502);
  };
  if (!head.fault.text.empty()) return bad(head.fault.text);
  const auto pseudo = split(head.fields);
  if (!pseudo) return bad(pseudo.error().text);
  if (!pseudo->status || pseudo->status->size() != 3) return bad("no status");
  ResponseHead response;
  const char* digits = pseudo->status->data();
  const auto [rest, error] = std::from_chars(digits, digits + 3, response.status);
  if (error != std::errc() || rest != digits + 3 || response.status < 100) return bad("no status");
  response.fields = std::move(head.fields);
  return response;
}

std::vector<Field> make_http2_request(const RequestHead& head, Scheme scheme) {
  const auto hosts = values_of(head.fields, "Host");
  std::vector<Field> fields{
      {":method", head.method},
      {":scheme", scheme == Scheme::https ? "https" : "http"},
      {":authority", hosts.empty() ? std::string() : std::string(hosts.front())},
      {":path", head.target},
  };
  append_lowered(fields, head.fields);
  return fields;
}

std::vector<Field> make_http2_response(const ResponseHead& head) {
  std::vector<Field> fields{{":status", std::to_string(head.status)}};
  append_lowered(fields, head.fields);
  return fields;
}

std::vector<Field> make_http2_answer(const Answer& answer) {
  return {{":status", std::to_string(answer.status)},
          {"content-type", answer.content_type},
          {"content-length", std::to_string(answer.body.size())}};
}

std::vector<Field> make_http2_trailers(std::vector<Field> trailers, std::string_view dropped) {
  std::erase_if(trailers, [&](const Field& field) {
    return !wire::is_token(field.name) || !is_field_value(field.value) ||
           is_forbidden_trailer(field.name) || is_connection_field(field.name) ||
           (!dropped.empty() && wire::equal_ignoring_case(field.name, dropped));
  });
  for (Field& field : trailers) field.name = wire::lower(field.name);
  return trailers;
}

BodyFraming frame_for_http1(RequestHead& head, BodyPresence body) {
  std::string cookies;
  for (const auto value : values_of(head.fields, "cookie"))
    cookies += (cookies.empty() ? "" : "; ") + std::string(value);
  if (!cookies.empty()) {
    remove_field(head.fields, "cookie");
    head.fields.push_back(Field{"cookie", cookies});
  }
  const auto framing = plan_request_body(head);
  if (framing && framing->kind == BodyFraming::Kind::length) return *framing;
  if (body == BodyPresence::some) {
    head.fields.push_back(Field{"Transfer-Encoding", "chunked"});
    return BodyFraming{BodyFraming::Kind::chunked, 0};
  }
  // RFC 9110 §8.6: an origin may wait for a body where these methods say nothing about one.
  if (head.method == "POST" || head.method == "PUT" || head.method == "PATCH")
    head.fields.push_back(Field{"Content-Length", "0"});
  return BodyFraming{};
}

bool takes_trailers(const RequestHead& head) { return !list_of(head.fields, "te").empty(); }

}  // namespace daiv::proxy
