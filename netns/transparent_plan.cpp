#include "netns/transparent_plan.hpp"

#include <algorithm>
#include <array>

namespace daiv::netns {
namespace {

constexpr std::uint32_t first_priority = 100;
constexpr std::uint8_t host_prefix = 32;

// RFC 6890: "this network", link-local, multicast and reserved. Nothing of the web is there.
constexpr std::array nowhere{Subnet{0x00000000, 8}, Subnet{0xa9fe0000, 16}, Subnet{0xe0000000, 3}};

// 100.112.0.0/16 of the shared address space (RFC 6598), beside the links of the default; where an
// operator's own subnet is there, one of the private ranges (RFC 1918). They lie in three networks
// that no usable subnet covers together.
constexpr std::array pools{Subnet{0x64700000, 16}, Subnet{0xac1e0000, 16}, Subnet{0x0afe0000, 16}};

}  // namespace

std::vector<RouteRule> plan_rules(const LinkAddresses& addresses) {
  using Verdict = RouteRule::Verdict;
  std::vector<RouteRule> rules;
  const auto add = [&](std::optional<Subnet> to, std::uint16_t port, Verdict verdict) {
    const auto place = first_priority + static_cast<std::uint32_t>(rules.size());
    rules.push_back({place, to, port, verdict});
  };
  add(Subnet{addresses.proxy, host_prefix}, 0, Verdict::routed);
  for (const Subnet& subnet : nowhere) add(subnet, 0, Verdict::unreachable);
  add(std::nullopt, http_port, Verdict::routed);
  add(std::nullopt, https_port, Verdict::routed);
  add(std::nullopt, 0, Verdict::unreachable);
  return rules;
}

Subnet plan_synthetic_pool(const Subnet& subnet) {
  return *std::ranges::find_if(pools, [&](const Subnet& pool) { return !overlap(pool, subnet); });
}

}  // namespace daiv::netns
