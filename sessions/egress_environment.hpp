#pragma once

#include <string>
#include <vector>

#include "runtime/broker_protocol.hpp"

namespace daiv::sessions {

// Where agent/trust_store.hpp puts all certificates that commands are to trust.
inline constexpr const char* trust_bundle = "/etc/ssl/certs/ca-certificates.crt";

// `environment` (NAME=value) with what sends programs to the proxy and makes them trust its CA:
// five proxy variables and six of trust win over what is there; NO_PROXY for the sandbox's own
// loopback and the variables of further tools are set only where nothing is.
std::vector<std::string> with_egress(std::vector<std::string> environment,
                                     const runtime::EgressLink& link);

}  // namespace daiv::sessions
