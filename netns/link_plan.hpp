#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Which addresses the two ends of a session's link have. Pure. IPv4 addresses are numbers in host
// byte order here.
namespace daiv::netns {

// An IPv4 network, "100.124.0.0/14": links of one host take their addresses from it.
struct Subnet {
  std::uint32_t address = 0;
  std::uint8_t prefix = 0;

  friend bool operator==(const Subnet&, const Subnet&) = default;
};

// Whether they have an address in common.
bool overlap(const Subnet& left, const Subnet& right);

// The far end of the shared address space (RFC 6598): neither the Internet nor common private
// networks use it, and 65,536 links fit.
inline constexpr std::string_view default_subnet = "100.124.0.0/14";

// Empty where the text is no network of at most 30 bits with all host bits clear, or lies where no
// host may have an address (0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3).
std::optional<Subnet> parse_subnet(std::string_view text);

// Ends of one link. Each is a /32 with the other as its peer: there is no third address in reach.
struct LinkAddresses {
  std::uint32_t proxy = 0;
  std::uint32_t sandbox = 0;

  friend bool operator==(const LinkAddresses&, const LinkAddresses&) = default;
};

// Four addresses belong to each link, of which the middle two are used; so no link's address ends
// in .0 or .255, which some programs take for a network or a broadcast. Empty where `index` does
// not fit into the subnet.
std::optional<LinkAddresses> plan_link(const Subnet& subnet, std::uint32_t index);

// "100.124.0.1".
std::string format_address(std::uint32_t address);

}  // namespace daiv::netns
