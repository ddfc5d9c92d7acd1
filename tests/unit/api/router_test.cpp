#include "api/router.hpp"

#include <gtest/gtest.h>

#include <array>

namespace daiv::api {
namespace {

std::string verdict(std::string_view method, std::string_view path) {
  const RouteVerdict found = find_route(method, path, "/api/v1");
  if (const RouteMatch* match = std::get_if<RouteMatch>(&found))
    return std::string(match->route->path) + " " + match->session_id;
  if (const RouteRedirect* redirect = std::get_if<RouteRedirect>(&found))
    return "-> " + redirect->path;
  if (const MethodNotAllowed* refused = std::get_if<MethodNotAllowed>(&found))
    return "allow " + refused->allow;
  return "none";
}

TEST(Router, DecidesAsStarletteDoes) {
  const std::vector<std::array<std::string, 3>> table{
      {"GET", "/-/health/", "/-/health/ "},
      {"GET", "/api/v1/-/health/", "/-/health/ "},
      {"HEAD", "/-/health/", "allow GET"},
      {"HEAD", "/openapi.json", "/openapi.json "},
      {"POST", "/openapi.json", "allow GET, HEAD"},
      {"POST", "/docs", "allow GET, HEAD"},
      {"HEAD", "/-/metrics", "allow GET"},
      {"POST", "/session/", "/session/ "},
      {"GET", "/session/", "allow POST"},
      {"POST", "/session/abc/", "/session/{session_id}/ abc"},
      {"PATCH", "/session/abc/", "allow POST, GET, DELETE"},
      {"POST", "/session/abc/fs/ls", "/session/{session_id}/fs/ls abc"},
      {"POST", "/session/abc/fs/chmod", "none"},
      {"POST", "/session/abc/fs/", "none"},
      {"POST", "/session/abc/fs/ls/", "-> /session/abc/fs/ls"},
      {"GET", "/session/abc/fs/ls///", "-> /session/abc/fs/ls"},
      {"GET", "/-/health", "-> /-/health/"},
      {"POST", "/api/v1/session/abc", "-> /api/v1/session/abc/"},
      {"GET", "/session/a/b/", "none"},
      {"GET", "/session//", "none"},
      {"GET", "/", "none"},
      {"GET", "", "none"},
      {"GET", "/api/v1", "none"},
      {"GET", "/api/v1/", "none"},
      {"GET", "/api/v1x/-/health/", "none"},
      {"GET", "/api/v1/api/v1/-/health/", "none"},
      {"GET", "/SESSION/abc/", "none"},
      {"OPTIONS", "*", "none"},
  };
  for (const auto& [method, path, expected] : table)
    EXPECT_EQ(verdict(method, path), expected) << method << " " << path;
}

TEST(Router, ServesTheRootAloneWithoutAPrefix) {
  EXPECT_TRUE(std::holds_alternative<RouteMatch>(find_route("GET", "/-/health/", "")));
  EXPECT_TRUE(std::holds_alternative<NoRoute>(find_route("GET", "/api/v1/-/health/", "")));
}

TEST(Router, SplitsTargets) {
  EXPECT_EQ(split_target("/a%20b?x=1#f").path, "/a b");
  EXPECT_EQ(split_target("/a?x=1#f").query, "x=1");
  EXPECT_EQ(split_target("http://host:1/a?q").path, "/a");
  EXPECT_EQ(split_target("http://host").path, "/");
  EXPECT_EQ(split_target("/%ff%zz%4").path, "/\xef\xbf\xbd%zz%4");
  EXPECT_EQ(split_target("/a%2Fb").path, "/a/b");
}

// A redirect must not let a path break out of its header.
TEST(Router, QuotesLocations) {
  EXPECT_EQ(quote_location("http://h/a b\r\nX: \xc3\xa9?q=1&r=%20"),
            "http://h/a%20b%0D%0AX:%20%C3%A9?q=1&r=%20");
}

TEST(Router, FindsTheLastQueryParameter) {
  EXPECT_EQ(query_parameter("force=1&x=2&force=%74rue", "force"), "true");
  EXPECT_EQ(query_parameter("a=b+c", "a"), "b c");
  EXPECT_EQ(query_parameter("force", "force"), "");
  EXPECT_EQ(query_parameter("x=1", "force"), std::nullopt);
  EXPECT_EQ(query_parameter("", "force"), std::nullopt);
}

}  // namespace
}  // namespace daiv::api
