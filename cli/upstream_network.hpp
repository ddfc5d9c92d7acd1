#pragma once

#include <cstdint>
#include <string>

#include "cli/settings.hpp"

namespace daiv::cli {

// What connections to origins leave through: DAIV_SANDBOX_EGRESS_PROXY_NETWORK, else
// DAIV_SANDBOX_NETWORK, compared with what this host has now.
struct UpstreamNetwork {
  enum class Kind : std::uint8_t { any, interface, network_namespace, unknown };
  Kind kind = Kind::any;
  std::string name;     // of the interface or the namespace
  std::string setting;  // that says so, NAME=VALUE
  std::string fault;    // of an unknown one, for the operator
};

// An interface before a namespace of the same name; an absolute path is a namespace and nothing
// else.
UpstreamNetwork find_upstream_network(const Settings& settings);

// Where ip-netns(8) looks for the name servers of a namespace before it takes the host's.
std::string resolver_file_of(const std::string& network_namespace);

// Whether all name servers of such a file are on loopback, which is another one in each namespace.
bool asks_loopback_alone(const std::string& resolver_text);

}  // namespace daiv::cli
