#include "proxy/http_body.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "wire/ascii.hpp"

namespace daiv::proxy {
namespace {

constexpr std::size_t max_size_digits = 16;

constexpr std::array forbidden_trailers{"content-length",
                                        "transfer-encoding",
                                        "host",
                                        "connection",
                                        "authorization",
                                        "cookie",
                                        "set-cookie",
                                        "content-range",
                                        "proxy-authorization",
                                        "content-encoding",
                                        "content-type",
                                        "trailer",
                                        "te",
                                        "expect",
                                        "upgrade"};

std::unexpected<HttpFault> fault(std::string text) {
  return std::unexpected(HttpFault{400, std::move(text)});
}

}  // namespace

BodyReader::BodyReader(BodyFraming framing) noexcept : state_(State::done), left_(framing.length) {
  switch (framing.kind) {
    case BodyFraming::Kind::none:
      break;
    case BodyFraming::Kind::length:
      state_ = left_ > 0 ? State::counted : State::done;
      break;
    case BodyFraming::Kind::chunked:
      state_ = State::chunk_size;
      break;
    case BodyFraming::Kind::until_close:
      state_ = State::until_close;
      break;
  }
}

std::expected<std::size_t, HttpFault> BodyReader::feed(std::string_view bytes, std::string& body) {
  std::size_t taken = 0;
  while (taken < bytes.size() && !done()) {
    const auto count = step(bytes.substr(taken), body);
    if (!count) return count;
    if (*count == 0) break;
    taken += *count;
  }
  return taken;
}

bool BodyReader::finish() noexcept {
  if (state_ == State::until_close) state_ = State::done;
  return done();
}

std::expected<std::size_t, HttpFault> BodyReader::step(std::string_view bytes, std::string& body) {
  switch (state_) {
    case State::counted:
    case State::chunk_data: {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
      body.append(bytes.substr(0, count));
      left_ -= count;
      if (left_ == 0) state_ = state_ == State::counted ? State::done : State::chunk_end;
      return count;
    }
    case State::until_close:
      body.append(bytes);
      return bytes.size();
    case State::chunk_size:
      return take_size(bytes);
    case State::chunk_end:
      if (bytes.size() < 2 && bytes.front() == '\r') return std::size_t{0};
      if (!bytes.starts_with("\r\n")) return fault("a chunk is longer than its size");
      state_ = State::chunk_size;
      return std::size_t{2};
    case State::trailers:
      return take_trailers(bytes);
    case State::done:
      break;
  }
  return std::size_t{0};
}

// chunk-size [ chunk-ext ] CRLF (RFC 9112 §7.1); extensions are dropped.
std::expected<std::size_t, HttpFault> BodyReader::take_size(std::string_view bytes) {
  const auto end = bytes.find('\n');
  const auto line = bytes.substr(0, end);
  if (line.size() > max_chunk_line_bytes) return fault("the line of a chunk is too long");
  if (end == std::string_view::npos) return std::size_t{0};
  if (!line.ends_with('\r') || line.find('\r') != line.size() - 1)
    return fault("bare CR or LF in a chunk's line");
  const auto digits = line.find_first_not_of("0123456789abcdefABCDEF");
  if (digits == 0 || digits > max_size_digits) return fault("bad chunk size");
  const auto after = line.find_first_not_of(" \t", digits);
  if (after != line.size() - 1 && line[after] != ';') return fault("bad chunk size");
  std::from_chars(line.data(), line.data() + digits, left_, 16);
  state_ = left_ == 0 ? State::trailers : State::chunk_data;
  return end + 1;
}

std::expected<std::size_t, HttpFault> BodyReader::take_trailers(std::string_view bytes) {
  if (bytes.starts_with("\r\n")) {
    state_ = State::done;
    return std::size_t{2};
  }
  const auto end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (bytes.size() > max_trailer_bytes) return fault("the trailers are too long");
    return std::size_t{0};
  }
  auto fields = parse_fields(bytes.substr(0, end + 4));
  if (!fields) return std::unexpected(std::move(fields.error()));
  trailers_ = std::move(*fields);
  state_ = State::done;
  return end + 4;
}

std::string make_chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

bool is_forbidden_trailer(std::string_view name) {
  return std::ranges::any_of(forbidden_trailers, [&](const char* other) {
    return wire::equal_ignoring_case(name, other);
  });
}

std::string make_last_chunk(const std::vector<Field>& trailers) {
  std::string text = "0\r\n";
  for (const auto& [name, value] : trailers) {
    if (!is_forbidden_trailer(name)) text += fmt::format("{}: {}\r\n", name, value);
  }
  return text + "\r\n";
}

}  // namespace daiv::proxy
