#include "cli/broker_sockets.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <variant>

#include "os/network_namespace.hpp"

namespace daiv::cli {
namespace {

using proxy::OutboundKind;
using runtime::OpenUpstreamSockets;

OpenUpstreamSockets request_for(OutboundKind kind) {
  const bool is_v6 = kind == OutboundKind::tcp6 || kind == OutboundKind::udp6;
  const bool is_datagram = kind == OutboundKind::udp4 || kind == OutboundKind::udp6;
  return {is_v6 ? OpenUpstreamSockets::Family::inet6 : OpenUpstreamSockets::Family::inet,
          is_datagram ? OpenUpstreamSockets::Type::datagram : OpenUpstreamSockets::Type::stream};
}

proxy::OutboundBatch take_batch(runtime::Reply reply) {
  if (const auto* failed = std::get_if<runtime::Failed>(&reply.answer))
    throw std::runtime_error(failed->message);
  const auto* opened = std::get_if<runtime::UpstreamSockets>(&reply.answer);
  if (opened == nullptr || reply.fds.size() < 2)
    throw std::runtime_error("the broker answered with something else");
  proxy::OutboundBatch batch{opened->network, std::move(reply.fds.front()), {}};
  reply.fds.erase(reply.fds.begin());
  batch.sockets = std::move(reply.fds);
  return batch;
}

}  // namespace

std::shared_ptr<proxy::OutboundSockets> borrow_upstream_sockets(
    runtime::BrokerClient& broker, const std::string& network_namespace) {
  const std::string path = fmt::format("{}/{}", os::named_networks, network_namespace);
  return std::make_shared<proxy::OutboundSockets>(
      [&broker, network_namespace](OutboundKind kind) {
        try {
          return take_batch(broker.call(request_for(kind)));
        } catch (const std::exception& error) {
          throw std::runtime_error(fmt::format("no socket in the network namespace {}: {}",
                                               network_namespace, error.what()));
        }
      },
      [path] { return os::find_network(path); });
}

}  // namespace daiv::cli
