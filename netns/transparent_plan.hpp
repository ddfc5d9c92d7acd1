#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "netns/link_plan.hpp"

// Transparent mode: programs that know no proxy reach it all the same. What the sandbox connects to
// on the web's two ports arrives at the proxy's end of the link, whatever the address. Pure.
namespace daiv::netns {

enum class Transparency : std::uint8_t { off, on };

inline constexpr std::uint16_t http_port = 80;
inline constexpr std::uint16_t https_port = 443;
inline constexpr std::uint16_t dns_port = 53;

// One step of the choice of a route (ip-rule(8)); the least priority comes first.
struct RouteRule {
  enum class Verdict { routed, unreachable };
  std::uint32_t priority = 0;
  std::optional<Subnet> to;    // empty: whatever the address
  std::uint16_t tcp_port = 0;  // 0: whatever the protocol and the port
  Verdict verdict = Verdict::unreachable;

  friend bool operator==(const RouteRule&, const RouteRule&) = default;
};

// What the sandbox's packets may leave for: the proxy's address, and TCP to the web's ports of any
// address that a host may have. All else is ENETUNREACH at once, in the sandbox itself: other
// ports, UDP (QUIC with it), ICMP, multicast, link-local addresses. The kernel asks its own rule
// for local addresses (priority 0) before these.
std::vector<RouteRule> plan_rules(const LinkAddresses& addresses);

// A network of 65,536 addresses that stand for names inside one sandbox. They are no host's: what
// the sandbox connects to there is judged and dialled by its name. Never one that overlaps
// `subnet`.
Subnet plan_synthetic_pool(const Subnet& subnet);

}  // namespace daiv::netns
