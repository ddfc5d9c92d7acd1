#include "api/router.hpp"

#include <algorithm>
#include <array>

#include "api/utf8.hpp"
#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

constexpr std::string_view session_segment = "{session_id}";

constexpr std::array route_table{
    Route{RouteId::health, "GET", "/-/health/"},
    Route{RouteId::version, "GET", "/-/version/"},
    Route{RouteId::openapi, "GET", "/openapi.json"},
    Route{RouteId::docs, "GET", "/docs"},
    Route{RouteId::metrics, "GET", "/-/metrics"},
    Route{RouteId::create, "POST", "/session/"},
    Route{RouteId::run, "POST", "/session/{session_id}/"},
    Route{RouteId::touch, "GET", "/session/{session_id}/"},
    Route{RouteId::close, "DELETE", "/session/{session_id}/"},
    Route{RouteId::seed, "POST", "/session/{session_id}/seed/"},
    Route{RouteId::egress, "PUT", "/session/{session_id}/egress/"},
    Route{RouteId::fs_ls, "POST", "/session/{session_id}/fs/ls"},
    Route{RouteId::fs_read, "POST", "/session/{session_id}/fs/read"},
    Route{RouteId::fs_grep, "POST", "/session/{session_id}/fs/grep"},
    Route{RouteId::fs_glob, "POST", "/session/{session_id}/fs/glob"},
    Route{RouteId::fs_write, "POST", "/session/{session_id}/fs/write"},
    Route{RouteId::fs_edit, "POST", "/session/{session_id}/fs/edit"},
    Route{RouteId::fs_delete, "POST", "/session/{session_id}/fs/delete"},
};

// The session id in `path` where it matches `pattern`; empty text where the pattern has none.
std::optional<std::string> match(std::string_view pattern, std::string_view path) {
  const std::size_t at = pattern.find(session_segment);
  if (at == std::string_view::npos)
    return pattern == path ? std::optional<std::string>("") : std::nullopt;
  if (!path.starts_with(pattern.substr(0, at))) return std::nullopt;
  const std::string_view rest = path.substr(at);
  const std::string_view id = rest.substr(0, rest.find('/'));
  if (id.empty() || rest.substr(id.size()) != pattern.substr(at + session_segment.size()))
    return std::nullopt;
  return std::string(id);
}

// The path below the prefix (starlette._utils.get_route_path).
std::string_view route_path(std::string_view path, std::string_view prefix) {
  if (prefix.empty() || !path.starts_with(prefix)) return path;
  const std::string_view rest = path.substr(prefix.size());
  return rest.empty() || rest.front() == '/' ? rest : path;
}

std::string toggle_last_slash(std::string_view path) {
  if (!path.ends_with('/')) return std::string(path) + '/';
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(path);
}

bool matches_any(std::string_view path) {
  return std::any_of(route_table.begin(), route_table.end(),
                     [path](const Route& route) { return match(route.path, path).has_value(); });
}

std::string form_decode(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return percent_decode(spaced);
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_.-~:/%#?=@[]!$&'()*+,;").find(c) != std::string_view::npos;
}

}  // namespace

std::span<const Route> routes() { return route_table; }

RouteVerdict find_route(std::string_view method, std::string_view path, std::string_view prefix) {
  const std::string_view below = route_path(path, prefix);
  std::string allow;
  for (const Route& route : route_table) {
    std::optional<std::string> session = match(route.path, below);
    if (!session) continue;
    // FastAPI adds no HEAD to its routes, Starlette does to those of the documentation.
    const bool head = route.id == RouteId::openapi || route.id == RouteId::docs;
    if (route.method == method || (head && method == "HEAD"))
      return RouteMatch{&route, *std::move(session)};
    allow += (allow.empty() ? "" : ", ") + std::string(route.method) + (head ? ", HEAD" : "");
  }
  if (!allow.empty()) return MethodNotAllowed{std::move(allow)};
  if (below == "/") return NoRoute{};
  if (!matches_any(toggle_last_slash(below))) return NoRoute{};
  return RouteRedirect{toggle_last_slash(path)};
}

std::string percent_decode(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? wire::hex_value(text[i + 1]) : -1;
    const int low = high >= 0 ? wire::hex_value(text[i + 2]) : -1;
    if (low < 0) {
      bytes += text[i];
      continue;
    }
    bytes += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return replace_invalid_utf8(bytes);
}

Target split_target(std::string_view target) {
  const std::size_t scheme = target.find("://");
  if (scheme != std::string_view::npos && !target.starts_with('/')) {
    const std::size_t path = target.find_first_of("/?", scheme + 3);
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  const std::string_view query =
      mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  return {percent_decode(target.substr(0, mark)), std::string(query)};
}

std::string quote_location(std::string_view url) {
  static constexpr std::string_view hex = "0123456789ABCDEF";
  std::string out;
  for (const char c : url) {
    if (is_unreserved(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += hex[byte >> 4U];
    out += hex[byte & 0xfU];
  }
  return out;
}

std::optional<std::string> query_parameter(std::string_view query, std::string_view name) {
  std::optional<std::string> found;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      // Starlette keeps blank values: "?force" is an empty one.
      if (!pair.empty() && form_decode(pair) == name) found = "";
      continue;
    }
    if (form_decode(pair.substr(0, equals)) == name) found = form_decode(pair.substr(equals + 1));
  }
  return found;
}

}  // namespace daiv::api
