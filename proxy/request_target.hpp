#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/host_name.hpp"
#include "proxy/http_head.hpp"

namespace daiv::proxy {

enum class Scheme { http, https };

// A host and a port, as they are connected to.
struct Authority {
  HostName host;
  std::uint16_t port = 0;

  friend bool operator==(const Authority&, const Authority&) = default;
};

// What a request is for.
struct Destination {
  Scheme scheme = Scheme::http;
  Authority authority;
  std::string path;  // origin form: begins with "/", or "*"
};

// The target of a CONNECT: "host:port", nothing else (RFC 9110 §9.3.6).
std::expected<Authority, HttpFault> parse_connect_target(std::string_view target);

// "host" or "host:port", as in a Host field or in the authority of a URL; user info is refused.
std::optional<Authority> parse_authority(std::string_view text, std::uint16_t default_port);

// What a request that is no CONNECT is for: from its target where that is absolute
// ("http://host/path"), else from its Host field with `scheme`. There must be exactly one Host in
// HTTP/1.1, and it must name the same host and port as an absolute target does: judging one and
// sending the other is how policies are got round. A name without a port means `implied_port`; 0:
// the scheme's own.
std::expected<Destination, HttpFault> find_destination(const RequestHead& head, Scheme scheme,
                                                       std::uint16_t implied_port = 0);

}  // namespace daiv::proxy
