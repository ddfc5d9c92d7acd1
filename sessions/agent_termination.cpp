#include "sessions/agent_termination.hpp"

#include <spdlog/spdlog.h>

#include "agent/protocol.hpp"
#include "sessions/agent_client.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

constexpr AgentLimit connect_limit = std::chrono::seconds(1);
constexpr AgentLimit answer_slack = std::chrono::seconds(2);

}  // namespace

asio::awaitable<void> terminate_processes(std::string agent_socket,
                                          std::chrono::milliseconds grace) {
  try {
    AgentConnection connection = co_await AgentConnection::open(agent_socket, connect_limit);
    agent::TerminateRequest request;
    request.grace = grace;
    co_await connection.send(static_cast<std::uint8_t>(agent::RequestType::terminate),
                             request.encode(), connect_limit);
    co_await connection.receive(grace + answer_slack);
  } catch (const AgentError& error) {
    spdlog::debug("socket={} event=terminate_failed error=\"{}\"", agent_socket, error.what());
  }
}

}  // namespace daiv::sessions
