#include "runtime/upstream.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "os/error.hpp"
#include "os/network_namespace.hpp"

namespace daiv::runtime {

netns::UpstreamSockets open_upstream(const BrokerOptions& options, int family, int type,
                                     std::size_t count) {
  if (options.egress_network.empty())
    throw os::Error(ENOENT, "network namespace", "the broker was started without one");
  // By its name each time: it may have been made anew.
  const os::UniqueFd network =
      os::open_network(fmt::format("{}/{}", os::named_networks, options.egress_network));
  return netns::open_upstream_sockets(network, family, type, count,
                                      {options.front_uid, options.front_gid});
}

}  // namespace daiv::runtime
