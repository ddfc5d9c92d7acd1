#include "proxy/request_target.hpp"

#include <charconv>

#include "wire/ascii.hpp"

namespace daiv::proxy {
namespace {

std::unexpected<HttpFault> fault(std::string text) {
  return std::unexpected(HttpFault{400, std::move(text)});
}

std::uint16_t default_port(Scheme scheme) { return scheme == Scheme::https ? 443 : 80; }

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size() || port == 0)
    return std::nullopt;
  return port;
}

struct Parts {
  std::string_view host;
  std::optional<std::string_view> port;
};

// An IPv6 literal must be in brackets where a port may follow (RFC 3986 §3.2.2).
Parts split(std::string_view text) {
  const auto bracket = text.starts_with('[') ? text.find(']') : 0;
  const auto colon = bracket == std::string_view::npos ? bracket : text.find(':', bracket);
  if (colon == std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

bool is_bare_ipv6(std::string_view host) {
  return !host.starts_with('[') && host.find(':') != std::string_view::npos;
}

struct Absolute {
  Scheme scheme;
  std::string_view authority;
  std::string_view path;
};

std::optional<Absolute> split_absolute(std::string_view target) {
  const auto end = target.find("://");
  if (end == std::string_view::npos) return std::nullopt;
  const auto name = target.substr(0, end);
  Absolute absolute{};
  if (wire::equal_ignoring_case(name, "http"))
    absolute.scheme = Scheme::http;
  else if (wire::equal_ignoring_case(name, "https"))
    absolute.scheme = Scheme::https;
  else
    return std::nullopt;
  const auto rest = target.substr(end + 3);
  const auto authority_end = rest.find_first_of("/?#");
  absolute.authority = rest.substr(0, authority_end);
  absolute.path =
      authority_end == std::string_view::npos ? std::string_view() : rest.substr(authority_end);
  return absolute;
}

// A URL's empty path is "/" (RFC 9112 §3.2.1); what only has a query gets one.
std::string origin_form(std::string_view path) {
  if (path.starts_with('/')) return std::string(path);
  return "/" + std::string(path);
}

}  // namespace

std::optional<Authority> parse_authority(std::string_view text, std::uint16_t default_port) {
  const auto [host, port_text] = split(text);
  if (is_bare_ipv6(host)) return std::nullopt;
  const auto name = HostName::parse(host);
  if (!name) return std::nullopt;
  if (!port_text || port_text->empty()) return Authority{*name, default_port};
  const auto port = parse_port(*port_text);
  if (!port) return std::nullopt;
  return Authority{*name, *port};
}

std::expected<Authority, HttpFault> parse_connect_target(std::string_view target) {
  const auto [host, port_text] = split(target);
  if (!port_text) return fault("CONNECT needs host:port");
  const auto port = parse_port(*port_text);
  const auto name = is_bare_ipv6(host) ? std::nullopt : HostName::parse(host);
  if (!port || !name) return fault("CONNECT needs host:port");
  return Authority{*name, *port};
}

std::expected<Destination, HttpFault> find_destination(const RequestHead& head, Scheme scheme,
                                                       std::uint16_t implied_port) {
  const auto hosts = values_of(head.fields, "Host");
  if (hosts.size() > 1) return fault("more than one Host");
  const auto absolute = split_absolute(head.target);
  const bool origin =
      head.target.starts_with('/') || (head.target == "*" && head.method == "OPTIONS");
  if (!absolute && !origin) return fault("bad request target");
  if (hosts.empty() && (head.minor_version == 1 || !absolute)) return fault("no Host");
  if (absolute) scheme = absolute->scheme;
  const auto port = implied_port == 0 ? default_port(scheme) : implied_port;
  const auto named = hosts.empty() ? std::nullopt : parse_authority(hosts.front(), port);
  if (!hosts.empty() && !named) return fault("bad Host");
  if (!absolute) return Destination{scheme, *named, head.target};
  if (absolute->path.find('#') != std::string_view::npos) return fault("bad request target");
  const auto authority = parse_authority(absolute->authority, port);
  if (!authority) return fault("bad request target");
  if (named && *named != *authority)
    return std::unexpected(HttpFault{403, "Host differs from the request target"});
  return Destination{scheme, *authority, origin_form(absolute->path)};
}

}  // namespace daiv::proxy
