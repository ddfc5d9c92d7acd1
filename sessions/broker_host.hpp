#pragma once

#include "runtime/broker_client.hpp"
#include "sessions/sandbox_host.hpp"

namespace daiv::sessions {

// The broker as the place where sandboxes live.
class BrokerHost : public SandboxHost {
public:
  explicit BrokerHost(runtime::BrokerClient& broker) : broker_(broker) {}

  Sandbox create(const SandboxSpec& spec) override;
  void kill(const std::string& session) override;
  void remove(const std::string& session) override;
  std::vector<runtime::SandboxEntry> list() override;
  Sandbox adopt(const runtime::AdoptSandbox& request) override;

private:
  runtime::BrokerClient& broker_;
};

}  // namespace daiv::sessions
