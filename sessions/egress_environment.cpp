#include "sessions/egress_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace daiv::sessions {
namespace {

constexpr std::array<std::string_view, 5> proxy_names{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy",
                                                      "https_proxy", "ALL_PROXY"};
constexpr std::array<std::string_view, 6> trust_names{"NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
                                                      "REQUESTS_CA_BUNDLE",  "CURL_CA_BUNDLE",
                                                      "SSL_CERT_FILE",       "PIP_CERT"};
// Of cargo, deno and the AWS tools. uv reads SSL_CERT_FILE.
constexpr std::array<std::string_view, 3> further_trust_names{"CARGO_HTTP_CAINFO", "DENO_CERT",
                                                              "AWS_CA_BUNDLE"};
constexpr std::array<std::string_view, 2> direct_names{"NO_PROXY", "no_proxy"};
constexpr std::string_view loopback = "localhost,127.0.0.1,::1";
// Read by every JVM, which says so in one line on its standard error. There is no quieter way that
// all programs of Java obey: those with an HTTP client of their own look at system properties
// alone.
constexpr std::string_view java_options_name = "JAVA_TOOL_OPTIONS";

std::string address_text(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24U, address >> 16U & 0xffU, address >> 8U & 0xffU,
                     address & 0xffU);
}

std::string java_options(std::string_view host, std::uint16_t port) {
  return fmt::format(
      "-Dhttp.proxyHost={0} -Dhttp.proxyPort={1} -Dhttps.proxyHost={0} -Dhttps.proxyPort={1} "
      "-Dhttp.nonProxyHosts=localhost|127.*|[::1]",
      host, port);
}

using Lines = std::vector<std::string>;

Lines::iterator find(Lines& lines, std::string_view name) {
  return std::ranges::find_if(lines, [&](const std::string& line) {
    return line.size() > name.size() && line[name.size()] == '=' && line.starts_with(name);
  });
}

void set(Lines& lines, std::string_view name, std::string_view value) {
  const auto found = find(lines, name);
  std::string line = fmt::format("{}={}", name, value);
  if (found == lines.end()) {
    lines.push_back(std::move(line));
  } else {
    *found = std::move(line);
  }
}

void set_unless_there(Lines& lines, std::string_view name, std::string_view value) {
  if (find(lines, name) == lines.end()) set(lines, name, value);
}

}  // namespace

std::vector<std::string> with_egress(std::vector<std::string> environment,
                                     const runtime::EgressLink& link) {
  const std::string address = address_text(link.proxy);
  const std::string proxy = fmt::format("http://{}:{}", address, link.port);
  for (const auto name : proxy_names) set(environment, name, proxy);
  for (const auto name : trust_names) set(environment, name, trust_bundle);
  for (const auto name : further_trust_names) set_unless_there(environment, name, trust_bundle);
  // A caller who set one of the two has said what is to go past the proxy.
  const bool said = std::ranges::any_of(
      direct_names, [&](const auto name) { return find(environment, name) != environment.end(); });
  if (!said)
    for (const auto name : direct_names) set(environment, name, loopback);
  set_unless_there(environment, "NODE_USE_ENV_PROXY", "1");
  set_unless_there(environment, java_options_name, java_options(address, link.port));
  return environment;
}

}  // namespace daiv::sessions
