#include "sessions/broker_host.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "os/memfd.hpp"

namespace daiv::sessions {
namespace {

template <typename Answer>
Answer expect(runtime::Reply& reply) {
  if (auto* failed = std::get_if<runtime::Failed>(&reply.answer)) {
    throw HostError(failed->kind, std::move(failed->message));
  }
  auto* answer = std::get_if<Answer>(&reply.answer);
  if (answer == nullptr)
    throw HostError(runtime::Failure::internal, "broker: answer of another kind");
  return std::move(*answer);
}

enum class Egress { without, with };

Sandbox take_sandbox(runtime::Reply& reply, Egress egress) {
  expect<runtime::Created>(reply);
  const bool complete = egress == Egress::with ? reply.fds.size() >= 2 : reply.fds.size() == 1;
  if (!complete)
    throw HostError(runtime::Failure::internal, "broker: descriptors are missing in the answer");
  Sandbox sandbox{std::move(reply.fds.front()), {}};
  std::move(reply.fds.begin() + 1, reply.fds.end(), std::back_inserter(sandbox.egress_sockets));
  return sandbox;
}

}  // namespace

Sandbox BrokerHost::create(const SandboxSpec& spec) {
  const os::UniqueFd config = os::make_sealed_memfd("agent-config", spec.agent_config);
  runtime::Reply reply = broker_.call(spec.request, {config.get()});
  return take_sandbox(reply, spec.request.egress ? Egress::with : Egress::without);
}

void BrokerHost::kill(const std::string& session) {
  runtime::Reply reply = broker_.call(runtime::KillSandbox{session});
  expect<runtime::Done>(reply);
}

void BrokerHost::remove(const std::string& session) {
  runtime::Reply reply = broker_.call(runtime::RemoveSandbox{session});
  expect<runtime::Done>(reply);
}

std::vector<runtime::SandboxEntry> BrokerHost::list() {
  runtime::Reply reply = broker_.call(runtime::ListSandboxes{});
  return expect<runtime::Inventory>(reply).sandboxes;
}

Sandbox BrokerHost::adopt(const runtime::AdoptSandbox& request) {
  runtime::Reply reply = broker_.call(request);
  return take_sandbox(reply, request.egress_port != 0 ? Egress::with : Egress::without);
}

}  // namespace daiv::sessions
