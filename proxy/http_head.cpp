#include "proxy/http_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "wire/ascii.hpp"

namespace daiv::proxy {
namespace {

constexpr std::string_view line_end = "\r\n";

std::unexpected<HttpFault> fault(std::string text, int status = 400) {
  return std::unexpected(HttpFault{status, std::move(text)});
}

// Takes the next line, which must end in CR LF and hold neither of them elsewhere.
std::optional<std::string_view> take_line(std::string_view& bytes) {
  const auto end = bytes.find(line_end);
  if (end == std::string_view::npos) return std::nullopt;
  const auto line = bytes.substr(0, end);
  if (line.find_first_of("\r\n") != std::string_view::npos) return std::nullopt;
  bytes.remove_prefix(end + line_end.size());
  return line;
}

std::expected<Field, HttpFault> parse_field(std::string_view line) {
  if (line.front() == ' ' || line.front() == '\t') return fault("folded header line");
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !wire::is_token(line.substr(0, colon)))
    return fault("bad header name");
  const auto value = wire::trim(line.substr(colon + 1));
  if (!is_field_value(value)) return fault("control character in a header value");
  return Field{std::string(line.substr(0, colon)), std::string(value)};
}

// "HTTP/1.0" or "HTTP/1.1".
std::optional<int> parse_version(std::string_view text) {
  if (text == "HTTP/1.1") return 1;
  if (text == "HTTP/1.0") return 0;
  return std::nullopt;
}

std::expected<RequestHead, HttpFault> parse_request_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return fault("bad request line");
  const auto version = parse_version(line.substr(last + 1));
  if (!version) return fault("bad HTTP version");
  const auto method = line.substr(0, first);
  const auto target = line.substr(first + 1, last - first - 1);
  const auto is_visible = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!wire::is_token(method) || target.empty() || !std::ranges::all_of(target, is_visible))
    return fault("bad request line");
  return RequestHead{std::string(method), std::string(target), *version, {}};
}

std::expected<ResponseHead, HttpFault> parse_status_line(std::string_view line) {
  const auto bad = [] { return fault("the origin's status line is malformed", 502); };
  const auto version =
      parse_version(line.substr(0, std::min(line.size(), std::string_view("HTTP/1.1").size())));
  if (!version || line.size() < 12 || line[8] != ' ') return bad();
  int status = 0;
  const auto digits = line.substr(9, 3);
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + 3, status);
  if (error != std::errc() || rest != digits.data() + 3 || status < 100) return bad();
  if (line.size() > 12 && line[12] != ' ') return bad();
  const auto reason = line.size() > 13 ? line.substr(13) : std::string_view();
  if (!is_field_value(reason)) return bad();
  return ResponseHead{status, std::string(reason), *version, {}};
}

// Content-Length and Transfer-Encoding, without what the kind of message adds to it.
std::expected<BodyFraming, HttpFault> plan_body(const std::vector<Field>& fields,
                                                int minor_version) {
  const auto lengths = values_of(fields, "Content-Length");
  const auto codings = values_of(fields, "Transfer-Encoding");
  if (!codings.empty()) {
    if (!lengths.empty()) return fault("both Content-Length and Transfer-Encoding");
    if (minor_version == 0) return fault("Transfer-Encoding in HTTP/1.0");
    if (codings.size() != 1 || !wire::equal_ignoring_case(codings.front(), "chunked"))
      return fault("a transfer coding other than chunked");
    return BodyFraming{BodyFraming::Kind::chunked, 0};
  }
  if (lengths.empty()) return BodyFraming{};
  if (lengths.size() > 1) return fault("more than one Content-Length");
  const auto digits = lengths.front();
  std::uint64_t length = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (digits.empty() || digits.front() == '-' || error != std::errc() ||
      rest != digits.data() + digits.size())
    return fault("bad Content-Length");
  return BodyFraming{BodyFraming::Kind::length, length};
}

std::string fields_to_text(const std::vector<Field>& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += fmt::format("{}: {}\r\n", name, value);
  return text + "\r\n";
}

}  // namespace

bool is_field_value(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

std::expected<std::size_t, HttpFault> HeadScanner::scan(std::string_view bytes) {
  const auto known = bytes.substr(0, max_head_bytes);
  while (scanned_ < known.size()) {
    const auto end = known.find('\n', scanned_);
    scanned_ = end == std::string_view::npos ? known.size() : end + 1;
    if (end == std::string_view::npos) break;
    if (end == line_start_ || known[end - 1] != '\r') return fault("bare LF in a header");
    const auto line = known.substr(line_start_, end - 1 - line_start_);
    const bool is_first = line_start_ == 0;
    if (is_first && line.empty()) return fault("empty line before the head");
    if (line.empty()) return end + 1;
    if (is_first && kind_ == Kind::request)
      if (auto head = parse_request_line(line); !head)
        return std::unexpected(std::move(head.error()));
    line_start_ = end + 1;
  }
  if (bytes.size() >= max_head_bytes) return fault("header fields too large", 431);
  return std::size_t{0};
}

std::expected<std::size_t, HttpFault> find_head_end(std::string_view bytes) {
  return HeadScanner(HeadScanner::Kind::response).scan(bytes);
}

std::expected<std::vector<Field>, HttpFault> parse_fields(std::string_view bytes) {
  std::vector<Field> fields;
  for (;;) {
    const auto line = take_line(bytes);
    if (!line) return fault("bare CR or LF in a header");
    if (line->empty()) break;
    if (fields.size() == max_fields) return fault("too many header fields", 431);
    auto field = parse_field(*line);
    if (!field) return std::unexpected(std::move(field.error()));
    fields.push_back(std::move(*field));
  }
  if (!bytes.empty()) return fault("bytes behind the header fields");
  return fields;
}

std::expected<RequestHead, HttpFault> parse_request_head(std::string_view bytes) {
  const auto line = take_line(bytes);
  if (!line) return fault("bad request line");
  auto head = parse_request_line(*line);
  if (!head) return head;
  auto fields = parse_fields(bytes);
  if (!fields) return std::unexpected(std::move(fields.error()));
  head->fields = std::move(*fields);
  return head;
}

std::expected<ResponseHead, HttpFault> parse_response_head(std::string_view bytes) {
  const auto line = take_line(bytes);
  if (!line) return fault("the origin's status line is malformed", 502);
  auto head = parse_status_line(*line);
  if (!head) return head;
  auto fields = parse_fields(bytes);
  if (!fields) return fault("the origin's header is malformed: " + fields.error().text, 502);
  head->fields = std::move(*fields);
  return head;
}

std::vector<std::string_view> values_of(const std::vector<Field>& fields, std::string_view name) {
  std::vector<std::string_view> values;
  for (const auto& field : fields)
    if (wire::equal_ignoring_case(field.name, name)) values.emplace_back(field.value);
  return values;
}

std::vector<std::string> list_of(const std::vector<Field>& fields, std::string_view name) {
  std::vector<std::string> members;
  for (std::string_view rest : values_of(fields, name)) {
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      std::string member(wire::trim(rest.substr(0, comma)));
      std::ranges::transform(member, member.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      });
      if (!member.empty()) members.push_back(std::move(member));
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
  }
  return members;
}

void remove_field(std::vector<Field>& fields, std::string_view name) {
  std::erase_if(fields,
                [&](const Field& field) { return wire::equal_ignoring_case(field.name, name); });
}

std::expected<BodyFraming, HttpFault> plan_request_body(const RequestHead& head) {
  return plan_body(head.fields, head.minor_version);
}

std::expected<BodyFraming, HttpFault> plan_response_body(const ResponseHead& head,
                                                         std::string_view request_method) {
  auto framing = plan_body(head.fields, head.minor_version);
  if (!framing) return fault("the origin's answer is ambiguous: " + framing.error().text, 502);
  const bool bodiless =
      request_method == "HEAD" || head.status < 200 || head.status == 204 || head.status == 304;
  if (bodiless) return BodyFraming{};
  const bool delimited = framing->kind != BodyFraming::Kind::none;
  return delimited ? framing : BodyFraming{BodyFraming::Kind::until_close, 0};
}

std::string to_text(const RequestHead& head) {
  return fmt::format("{} {} HTTP/1.{}\r\n{}", head.method, head.target, head.minor_version,
                     fields_to_text(head.fields));
}

std::string to_text(const ResponseHead& head) {
  return fmt::format("HTTP/1.{} {} {}\r\n{}", head.minor_version, head.status, head.reason,
                     fields_to_text(head.fields));
}

}  // namespace daiv::proxy
