#pragma once

#include <memory>
#include <string>

#include "proxy/outbound_sockets.hpp"
#include "runtime/broker_client.hpp"

namespace daiv::cli {

// Sockets of this network namespace, which the broker was started with, too. `broker` outlives
// them.
std::shared_ptr<proxy::OutboundSockets> borrow_upstream_sockets(
    runtime::BrokerClient& broker, const std::string& network_namespace);

}  // namespace daiv::cli
