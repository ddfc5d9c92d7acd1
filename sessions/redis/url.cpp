#include "sessions/redis/url.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace daiv::sessions::redis {
namespace {

using Fault = std::unexpected<std::string>;

constexpr std::uint32_t most_databases = 1U << 20;

template <typename Number>
std::optional<Number> parse_number(std::string_view text, Number most, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value > most)
    return std::nullopt;
  return value;
}

std::optional<std::string> decode(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    if (text.front() != '%') {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    const auto byte = text.size() < 3
                          ? std::nullopt
                          : parse_number<std::uint8_t>(text.substr(1, 2), std::uint8_t{255}, 16);
    if (!byte) return std::nullopt;
    plain += static_cast<char>(*byte);
    text.remove_prefix(3);
  }
  return plain;
}

// What stands before `mark`; `text` goes on behind it. Whole and empty where there is no mark.
std::string_view cut(std::string_view& text, char mark) {
  const auto end = text.find(mark);
  const std::string_view head = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return head;
}

bool read_user(Url& url, std::string_view text) {
  const auto colon = text.find(':');
  const auto user = decode(text.substr(0, colon));
  const auto password =
      colon == std::string_view::npos ? std::string() : decode(text.substr(colon + 1));
  if (!user || !password) return false;
  url.user = *user;
  url.password = *password;
  return true;
}

bool read_address(Url& url, std::string_view text) {
  if (text.starts_with('[')) {
    if (text.find(']') == std::string_view::npos) return false;
    text.remove_prefix(1);
    url.host = cut(text, ']');
    if (!text.empty() && text.front() != ':') return false;
    if (!text.empty()) text.remove_prefix(1);
  } else {
    url.host = cut(text, ':');
  }
  if (!text.empty()) {
    const auto port = parse_number<std::uint16_t>(text, 65535);
    if (!port || *port == 0) return false;
    url.port = *port;
  }
  return !url.host.empty();
}

bool read_database(Url& url, std::string_view text) {
  if (text.empty()) return true;
  const auto number = parse_number<std::uint32_t>(text, most_databases);
  if (number) url.database = *number;
  return number.has_value();
}

bool read_option(Url& url, std::string_view name, std::string_view value) {
  if (name == "db") return !value.empty() && read_database(url, value);
  if (name == "ssl_cert_reqs") return value == "required";
  if (name == "ssl_check_hostname") return value == "true" || value == "True" || value == "1";
  if (name != "ssl_ca_certs") return false;
  const auto path = decode(value);
  if (!path || !path->starts_with('/')) return false;
  url.ca_file = *path;
  return url.tls == Tls::on;
}

bool read_options(Url& url, std::string_view text) {
  while (!text.empty()) {
    std::string_view value = cut(text, '&');
    const std::string_view name = cut(value, '=');
    if (!read_option(url, name, value)) return false;
  }
  return true;
}

}  // namespace

std::string Url::place() const {
  const bool brackets = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}/{}", brackets ? "[" : "", host, brackets ? "]" : "", port,
                     database);
}

std::expected<Url, std::string> parse_url(std::string_view text) {
  Url url;
  if (text.starts_with("rediss://")) {
    url.tls = Tls::on;
  } else if (!text.starts_with("redis://")) {
    return Fault("it must begin with redis:// or rediss://");
  }
  text.remove_prefix(text.find("//") + 2);
  const std::size_t fragment = text.find('#');
  if (fragment != std::string_view::npos)
    return Fault("it has a '#'; in a password it is written %23");
  std::string_view options = text;
  text = cut(options, '?');
  std::string_view database = text;
  std::string_view authority = cut(database, '/');
  const auto at = authority.rfind('@');
  if (at != std::string_view::npos) {
    if (!read_user(url, authority.substr(0, at)))
      return Fault("user or password: after '%' stand two hexadecimal digits");
    authority.remove_prefix(at + 1);
  }
  if (!url.user.empty() && url.password.empty()) return Fault("a user needs a password");
  if (!read_address(url, authority)) return Fault("host or port: expected HOST or HOST:PORT");
  if (!read_database(url, database)) return Fault("the path must be a database's number");
  if (!read_options(url, options))
    return Fault(
        "accepted options are db=NUMBER and, with rediss://, ssl_ca_certs=PATH, "
        "ssl_cert_reqs=required, ssl_check_hostname=true");
  return url;
}

}  // namespace daiv::sessions::redis
