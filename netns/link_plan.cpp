#include "netns/link_plan.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace daiv::netns {
namespace {

constexpr std::uint8_t max_prefix = 30;
constexpr std::uint32_t addresses_per_link = 4;

constexpr std::uint32_t mask(std::uint8_t prefix) {
  return prefix == 0 ? 0 : ~std::uint32_t{0} << (32U - prefix);
}

// RFC 6890: "this network", loopback, link-local, multicast and reserved.
constexpr std::array unusable{Subnet{0x00000000, 8}, Subnet{0x7f000000, 8}, Subnet{0xa9fe0000, 16},
                              Subnet{0xe0000000, 3}};

std::optional<std::uint32_t> parse_address(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

}  // namespace

bool overlap(const Subnet& left, const Subnet& right) {
  const std::uint32_t common = mask(std::min(left.prefix, right.prefix));
  return (left.address & common) == (right.address & common);
}

std::optional<Subnet> parse_subnet(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto address = parse_address(std::string(text.substr(0, slash)));
  const std::string_view digits = text.substr(slash + 1);
  unsigned prefix = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  if (!address || error != std::errc{} || end != digits.data() + digits.size() || digits.empty() ||
      prefix > max_prefix)
    return std::nullopt;
  const Subnet subnet{*address, static_cast<std::uint8_t>(prefix)};
  if ((subnet.address & ~mask(subnet.prefix)) != 0) return std::nullopt;
  const bool usable =
      std::ranges::none_of(unusable, [&](const Subnet& other) { return overlap(subnet, other); });
  return usable ? std::optional(subnet) : std::nullopt;
}

std::optional<LinkAddresses> plan_link(const Subnet& subnet, std::uint32_t index) {
  const std::uint64_t links = (std::uint64_t{1} << (32U - subnet.prefix)) / addresses_per_link;
  if (index >= links) return std::nullopt;
  const std::uint32_t first = subnet.address + index * addresses_per_link;
  return LinkAddresses{first + 1, first + 2};
}

std::string format_address(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24U, address >> 16U & 0xffU, address >> 8U & 0xffU,
                     address & 0xffU);
}

}  // namespace daiv::netns
