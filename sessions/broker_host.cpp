#include "sessions/broker_host.hpp"

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
  if (reply.fds.size() != (egress == Egress::with ? 2U : 1U))
    throw HostError(runtime::Failure::internal, "broker: descriptors are missing in the answer");
  Sandbox sandbox{std::move(reply.fds.front()), {}};
  if (egress == Egress::with) sandbox.egress_listener = std::move(reply.fds.back());
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

Sandbox BrokerHost::adopt(const std::string& session, std::uint16_t egress_port) {
  runtime::Reply reply = broker_.call(runtime::AdoptSandbox{session, egress_port});
  return take_sandbox(reply, egress_port != 0 ? Egress::with : Egress::without);
}

}  // namespace daiv::sessions
