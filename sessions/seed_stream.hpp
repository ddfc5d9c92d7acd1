#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <string>

#include "agent/protocol.hpp"
#include "sessions/agent_client.hpp"

namespace daiv::sessions {

// One seed over one connection (agent/protocol.hpp, SeedRequest). Every call throws SessionError
// where the agent refuses the seed, and AgentError where it fails to answer. Dropping the stream
// drops the seed.
class SeedStream {
public:
  static boost::asio::awaitable<SeedStream> open(AgentConnection connection,
                                                 agent::SeedRequest limits);

  // Sends bytes of one archive; waits while the sandbox is behind.
  boost::asio::awaitable<void> write(agent::SeedTarget target, std::string bytes);
  boost::asio::awaitable<void> end(agent::SeedTarget target);
  // All archives were sent: waits until the seed is visible. What was left out of it, for the log;
  // may be empty.
  boost::asio::awaitable<std::string> commit();

private:
  explicit SeedStream(AgentConnection connection) : connection_(std::move(connection)) {}
  boost::asio::awaitable<void> send(agent::SeedData data);
  // Reads the agent's verdict and throws unless it is `seeded`.
  boost::asio::awaitable<std::string> receive_verdict();

  AgentConnection connection_;
};

}  // namespace daiv::sessions
