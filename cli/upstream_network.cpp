#include "cli/upstream_network.hpp"

#include <fmt/format.h>
#include <net/if.h>

#include <optional>
#include <sstream>
#include <string_view>

#include "os/network_namespace.hpp"

namespace daiv::cli {
namespace {

using Kind = UpstreamNetwork::Kind;

// The name in a path right below the directory of ip-netns(8), by either of its names.
std::optional<std::string> name_below(std::string_view path) {
  for (const std::string_view prefix : {"", "/var"}) {
    const std::string directory = fmt::format("{}{}/", prefix, os::named_networks);
    if (!path.starts_with(directory)) continue;
    const std::string_view name = path.substr(directory.size());
    if (os::is_network_name(name)) return std::string(name);
  }
  return std::nullopt;
}

UpstreamNetwork unknown(std::string fault) { return {Kind::unknown, {}, {}, std::move(fault)}; }

UpstreamNetwork find_namespace(const std::string& name, std::string_view absent) {
  const bool exists =
      os::is_network_name(name) && os::find_network(fmt::format("{}/{}", os::named_networks, name));
  if (exists) return {Kind::network_namespace, name, {}, {}};
  return unknown(
      fmt::format("{}; ip netns add makes a network namespace, and it must be there "
                  "before the daemon",
                  absent));
}

UpstreamNetwork find(const std::string& value) {
  if (value.empty()) return {};
  if (value.starts_with('/')) {
    const auto name = name_below(value);
    if (!name)
      return unknown(
          "a path is that of a network namespace right below /run/netns; ip netns attach NAME PID "
          "puts one there");
    return find_namespace(*name, "this host has no network namespace of that name");
  }
  // The part before a colon is found for an alias (netdevice(7)), which no socket can be bound to.
  const bool is_alias = value.find(':') != std::string::npos;
  if (!is_alias && ::if_nametoindex(value.c_str()) != 0) return {Kind::interface, value, {}, {}};
  return find_namespace(value, "this host has no interface of that name, nor a network namespace");
}

}  // namespace

UpstreamNetwork find_upstream_network(const Settings& settings) {
  const bool own = !settings.egress_proxy_network.empty();
  const std::string& value = own ? settings.egress_proxy_network : settings.network;
  UpstreamNetwork found = find(value);
  found.setting =
      fmt::format("DAIV_SANDBOX_{}={}", own ? "EGRESS_PROXY_NETWORK" : "NETWORK", value);
  return found;
}

std::string resolver_file_of(const std::string& network_namespace) {
  return fmt::format("/etc/netns/{}/resolv.conf", network_namespace);
}

bool asks_loopback_alone(const std::string& resolver_text) {
  std::istringstream lines(resolver_text);
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string keyword;
    std::string address;
    words >> keyword >> address;
    if (keyword != "nameserver") continue;
    if (!address.starts_with("127.") && address != "::1") return false;
    found = true;
  }
  return found;
}

}  // namespace daiv::cli
