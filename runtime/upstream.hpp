#pragma once

#include <cstddef>

#include "netns/upstream_sockets.hpp"
#include "runtime/broker_options.hpp"

namespace daiv::runtime {

// Sockets of the options' network namespace, as it is now, that belong to the front's user. Throws
// os::Error where there is none.
netns::UpstreamSockets open_upstream(const BrokerOptions& options, int family, int type,
                                     std::size_t count);

}  // namespace daiv::runtime
