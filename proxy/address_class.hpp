#pragma once

#include <boost/asio/ip/address.hpp>

#include <functional>
#include <string_view>

#include "proxy/policy.hpp"

// Which addresses the proxy connects to, whatever name led there.
namespace daiv::proxy {

enum class AddressClass {
  global,
  private_range,  // RFC 1918, RFC 4193, RFC 6598: self-hosted forges live there
  forbidden,      // loopback, unspecified, link-local (metadata services), multicast, broadcast,
                  // reserved
};

// Classifies by value; an IPv4 address inside an IPv6 one (mapped, 6to4, NAT64 64:ff9b::/96) counts
// as what it carries.
AddressClass classify(const boost::asio::ip::address& address);

// "loopback", "link-local", … for the reason in an answer; empty for what is not forbidden.
std::string_view forbidden_name(const boost::asio::ip::address& address);

enum class AddressVerdict { allowed, forbidden, private_not_named };

// May `address` be connected to under the rule that let its host through (null: the default did)?
// `is_own` says whether it is an address of this host or of a session. A rule with that literal
// address opens what is forbidden otherwise.
AddressVerdict judge_address(const boost::asio::ip::address& address, const Rule* rule,
                             const std::function<bool(const boost::asio::ip::address&)>& is_own);

}  // namespace daiv::proxy
