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

os::UniqueFd take_pidfd(runtime::Reply& reply) {
  expect<runtime::Created>(reply);
  if (reply.fds.size() != 1)
    throw HostError(runtime::Failure::internal, "broker: no pidfd in the answer");
  return std::move(reply.fds.front());
}

}  // namespace

os::UniqueFd BrokerHost::create(const SandboxSpec& spec) {
  const os::UniqueFd config = os::make_sealed_memfd("agent-config", spec.agent_config);
  runtime::Reply reply = broker_.call(spec.request, {config.get()});
  return take_pidfd(reply);
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

os::UniqueFd BrokerHost::adopt(const std::string& session) {
  runtime::Reply reply = broker_.call(runtime::AdoptSandbox{session});
  return take_pidfd(reply);
}

}  // namespace daiv::sessions
