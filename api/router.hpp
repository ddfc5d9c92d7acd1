#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// Which handler a method and a path belong to, as Starlette's router decides it. Pure.
namespace daiv::api {

enum class RouteId {
  health,
  version,
  openapi,
  docs,
  metrics,
  create,
  run,
  touch,
  close,
  seed,
  egress,
  fs_ls,
  fs_read,
  fs_grep,
  fs_glob,
  fs_write,
  fs_edit,
  fs_delete,
};

struct Route {
  RouteId id;
  std::string_view method;
  std::string_view path;  // "{session_id}" stands for one segment that is not empty
};

// All routes, in the order in which they are tried.
std::span<const Route> routes();

struct RouteMatch {
  const Route* route;
  std::string session_id;  // empty where the path has none
};
struct RouteRedirect {
  std::string path;  // the same path with, or without, its last slash; percent-decoded
};
struct MethodNotAllowed {
  std::string allow;
};
struct NoRoute {};
using RouteVerdict = std::variant<RouteMatch, RouteRedirect, MethodNotAllowed, NoRoute>;

// `path` is percent-decoded and may start with `prefix` ("/api/v1", or empty).
RouteVerdict find_route(std::string_view method, std::string_view path, std::string_view prefix);

// The parts of a request target: origin-form or absolute-form (RFC 9112, section 3.2).
struct Target {
  std::string path;  // percent-decoded, bytes that are no UTF-8 replaced
  std::string query;
};
Target split_target(std::string_view target);

std::string percent_decode(std::string_view text);

// The address of a redirect: as urllib.parse.quote(url, safe=":/%#?=@[]!$&'()*+,;").
std::string quote_location(std::string_view url);

// The last value of a query parameter, decoded (urllib.parse.parse_qsl); empty where it is not
// given.
std::optional<std::string> query_parameter(std::string_view query, std::string_view name);

}  // namespace daiv::api
