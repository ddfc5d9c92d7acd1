#include "proxy/address_class.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace daiv::proxy {
namespace {

namespace ip = boost::asio::ip;

struct Range4 {
  std::uint32_t network;
  unsigned prefix;
  std::string_view name;
};

// RFC 6890 and the IANA IPv4 special-purpose registry.
constexpr std::array forbidden4{
    Range4{0x00000000, 8, "unspecified"}, Range4{0x7f000000, 8, "loopback"},
    Range4{0xa9fe0000, 16, "link-local"}, Range4{0xe0000000, 4, "multicast"},
    Range4{0xf0000000, 4, "reserved"},
};
constexpr std::array private4{
    Range4{0x0a000000, 8, "private"},
    Range4{0xac100000, 12, "private"},
    Range4{0xc0a80000, 16, "private"},
    Range4{0x64400000, 10, "shared"},
};

constexpr bool contains(const Range4& range, std::uint32_t address) {
  return ((address ^ range.network) >> (32 - range.prefix)) == 0;
}

// The IPv4 address that an IPv6 one carries, where a router or the kernel would go there.
std::optional<ip::address_v4> carried(const ip::address_v6& address) {
  const auto bytes = address.to_bytes();
  const auto at = [&](std::size_t index) {
    return ip::address_v4({bytes[index], bytes[index + 1], bytes[index + 2], bytes[index + 3]});
  };
  if (address.is_v4_mapped()) return at(12);
  constexpr std::array<unsigned char, 12> nat64{0x00, 0x64, 0xff, 0x9b};  // RFC 6052
  if (std::equal(nat64.begin(), nat64.end(), bytes.begin())) return at(12);
  if (bytes[0] == 0x20 && bytes[1] == 0x02) return at(2);  // 6to4, RFC 3056
  constexpr std::array<unsigned char, 12> compatible{};
  const bool low = bytes[12] == 0 && bytes[13] == 0 && bytes[14] == 0;
  if (std::equal(compatible.begin(), compatible.end(), bytes.begin()) && !low) return at(12);
  return std::nullopt;
}

std::string_view forbidden_name4(const ip::address_v4& address) {
  for (const auto& range : forbidden4)
    if (contains(range, address.to_uint())) return range.name;
  return {};
}

std::string_view forbidden_name6(const ip::address_v6& address) {
  if (address.is_unspecified()) return "unspecified";
  if (address.is_loopback()) return "loopback";
  if (address.is_link_local()) return "link-local";
  if (address.is_multicast()) return "multicast";
  if (address.is_site_local()) return "site-local";
  return {};
}

bool is_private4(const ip::address_v4& address) {
  return std::ranges::any_of(private4,
                             [&](const auto& range) { return contains(range, address.to_uint()); });
}

ip::address effective(const ip::address& address) {
  if (address.is_v6())
    if (const auto inner = carried(address.to_v6())) return *inner;
  return address;
}

}  // namespace

std::string_view forbidden_name(const ip::address& address) {
  const auto real = effective(address);
  return real.is_v4() ? forbidden_name4(real.to_v4()) : forbidden_name6(real.to_v6());
}

AddressClass classify(const ip::address& address) {
  if (!forbidden_name(address).empty()) return AddressClass::forbidden;
  const auto real = effective(address);
  if (real.is_v4())
    return is_private4(real.to_v4()) ? AddressClass::private_range : AddressClass::global;
  const bool unique_local = (real.to_v6().to_bytes()[0] & 0xfe) == 0xfc;  // RFC 4193
  return unique_local ? AddressClass::private_range : AddressClass::global;
}

AddressVerdict judge_address(const ip::address& address, const Rule* rule,
                             const std::function<bool(const ip::address&)>& is_own) {
  if (rule != nullptr && rule->host.is_literal_address(address.to_string()))
    return AddressVerdict::allowed;
  if (is_own(effective(address))) return AddressVerdict::forbidden;
  switch (classify(address)) {
    case AddressClass::global:
      return AddressVerdict::allowed;
    case AddressClass::forbidden:
      return AddressVerdict::forbidden;
    case AddressClass::private_range:
      return rule != nullptr && rule->host.names_its_hosts() ? AddressVerdict::allowed
                                                             : AddressVerdict::private_not_named;
  }
  return AddressVerdict::forbidden;
}

}  // namespace daiv::proxy
