#include "cli/egress_plan.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstring>
#include <utility>

#include "netns/link_plan.hpp"
#include "netns/transparent_plan.hpp"

namespace daiv::cli {
namespace {

constexpr std::size_t max_logged_bytes = 512;  // of a name, a method or a reason

namespace ip = boost::asio::ip;
using std::chrono::steady_clock;

constexpr std::chrono::seconds addresses_are_fresh{5};

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char letter) { return std::toupper(letter); });
  return text;
}

proxy::Rule plan_rule(const sessions::EgressRule& rule) {
  proxy::Rule plan{proxy::HostGlob(rule.host), {}, rule.inject};
  for (const std::string& method : rule.methods) plan.methods.push_back(upper(method));
  // One "*" allows all, and the proxy's word for that is an empty list.
  if (std::ranges::find(plan.methods, "*") != plan.methods.end()) plan.methods.clear();
  return plan;
}

bool in_subnet(const netns::Subnet& subnet, const ip::address& address) {
  if (!address.is_v4()) return false;
  const std::uint32_t mask = ~std::uint32_t{0} << (32U - subnet.prefix);
  return (address.to_v4().to_uint() & mask) == subnet.address;
}

// Interfaces come and go, so what was read is used for a moment only.
class OwnAddresses {
public:
  explicit OwnAddresses(netns::Subnet subnet) : subnet_(subnet) {}
  bool operator()(const ip::address& address) {
    const auto now = steady_clock::now();
    if (now - read_ > addresses_are_fresh || addresses_.empty()) {
      addresses_ = own_addresses();
      read_ = now;
    }
    return in_subnet(subnet_, address) ||
           std::ranges::find(addresses_, address) != addresses_.end();
  }

private:
  netns::Subnet subnet_;
  std::vector<ip::address> addresses_;
  steady_clock::time_point read_;
};

// 1.2.3.4 inside an IPv6 address is the same endpoint.
ip::address plain(const ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  return address;
}

// What a sandbox sent fits a line that a person reads, whatever its length was.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char letter : std::string_view(text).substr(0, max_logged_bytes))
    safe += letter < ' ' || letter > '~' || letter == '"' ? '?' : letter;
  return safe;
}

void add_metric(std::string& out, std::string_view name, const char* type, const char* help,
                std::uint64_t value) {
  out += fmt::format(
      "# HELP daiv_sandbox_egress_{0} {1}\n# TYPE daiv_sandbox_egress_{0} {2}\n"
      "daiv_sandbox_egress_{0} {3}\n",
      name, help, type, value);
}

}  // namespace

proxy::Policy plan_policy(const sessions::EgressPolicy& policy) {
  proxy::Policy plan;
  plan.fallback = policy.fallback == sessions::EgressDefault::allow ? proxy::Default::allow
                                                                    : proxy::Default::deny;
  plan.intercept = policy.intercept == sessions::EgressIntercept::all
                       ? proxy::Intercept::all
                       : proxy::Intercept::credentialed;
  for (const auto& rule : policy.rules) plan.rules.push_back(plan_rule(rule));
  for (const auto& [name, secret] : policy.secrets)
    plan.secrets.insert_or_assign(name, proxy::Secret{secret.header, secret.value});
  return plan;
}

std::vector<ip::address> own_addresses() {
  std::vector<ip::address> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address{};
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      addresses.emplace_back(ip::address_v4(ntohl(address.sin_addr.s_addr)));
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 address{};
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      ip::address_v6::bytes_type bytes{};
      std::memcpy(bytes.data(), &address.sin6_addr, bytes.size());
      addresses.emplace_back(ip::address_v6(bytes));
    }
  }
  ::freeifaddrs(list);
  return addresses;
}

proxy::EgressSettings plan_egress(const Settings& settings, const UpstreamNetwork& network) {
  proxy::EgressSettings plan;
  for (const EgressHost& entry : settings.egress_extra_hosts) {
    const auto host = proxy::HostName::parse(entry.name);
    if (host) plan.extra_hosts.push_back({*host, ip::make_address(entry.address)});
  }
  plan.upstream_ca_file = settings.egress_upstream_ca_file;
  plan.plaintext_injection = settings.egress_inject_plaintext == Switch::on
                                 ? proxy::PlaintextInjection::allowed
                                 : proxy::PlaintextInjection::refused;
  if (settings.egress_proxy_memory_bytes != 0)
    plan.max_buffer_bytes = settings.egress_proxy_memory_bytes;
  const netns::Subnet subnet = *netns::parse_subnet(settings.egress_subnet);
  plan.synthetic_pool = netns::plan_synthetic_pool(subnet).address;
  OwnAddresses own(subnet);
  plan.is_own_address = own;
  plan.is_closed_endpoint = [own, subnet,
                             port = settings.port](const ip::tcp::endpoint& endpoint) mutable {
    const ip::address address = plain(endpoint.address());
    if (in_subnet(subnet, address)) return true;
    const bool here = address.is_loopback() || address.is_unspecified() || own(address);
    return here && endpoint.port() == port;
  };
  if (network.kind == UpstreamNetwork::Kind::interface) plan.outbound_interface = network.name;
  if (network.kind == UpstreamNetwork::Kind::network_namespace)
    plan.resolver_file = resolver_file_of(network.name);
  return plan;
}

const char* describe(proxy::Decision::Kind kind) {
  switch (kind) {
    case proxy::Decision::Kind::request:
      return "request";
    case proxy::Decision::Kind::tunnel:
      return "tunnel";
    case proxy::Decision::Kind::connect:
      return "connect";
  }
  return "request";
}

std::string describe(const proxy::Decision& decision) {
  return fmt::format(
      "session={} event=egress kind={} decision={} method={} host=\"{}\" port={} status={} "
      "injected={} reason=\"{}\" rule=\"{}\" bytes_up={} bytes_down={} duration_ms={:.1f}",
      decision.session, describe(decision.kind), decision.allowed ? "allowed" : "denied",
      quoted(decision.method), quoted(decision.host), decision.port, decision.status,
      decision.injected, quoted(decision.reason), quoted(decision.rule), decision.bytes_up,
      decision.bytes_down, static_cast<double>(decision.duration.count()) / 1000.0);
}

std::string expose(const proxy::EgressCounters& counters) {
  std::string out;
  add_metric(out, "connections_total", "counter", "Connections of sandboxes.",
             counters.connections);
  add_metric(out, "connections", "gauge", "Open connections of sandboxes.",
             counters.open_connections);
  add_metric(out, "connections_refused_total", "counter", "Connections above a session's limit.",
             counters.refused_connections);
  add_metric(out, "requests_allowed_total", "counter", "Requests let through.",
             counters.requests_allowed);
  add_metric(out, "requests_denied_total", "counter", "Requests refused.",
             counters.requests_denied);
  add_metric(out, "tunnels_total", "counter", "Opaque tunnels.", counters.tunnels);
  add_metric(out, "tunnels_cut_total", "counter", "Tunnels cut by their SNI or a new policy.",
             counters.tunnels_cut);
  add_metric(out, "tls_handshakes_total", "counter", "Intercepted TLS handshakes.",
             counters.handshakes);
  add_metric(out, "certificates_total", "counter", "Certificates made.", counters.certificates);
  add_metric(out, "upstream_failures_total", "counter", "Requests answered 502 or 504.",
             counters.upstream_failures);
  add_metric(out, "injections_total", "counter", "Requests with an injected credential.",
             counters.injections);
  add_metric(out, "sent_bytes_total", "counter", "Bytes to origins.", counters.bytes_up);
  add_metric(out, "received_bytes_total", "counter", "Bytes from origins.", counters.bytes_down);
  return out;
}

}  // namespace daiv::cli
