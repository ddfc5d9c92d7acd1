#include "sessions/exec_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "agent/protocol.hpp"
#include "sessions/on_pool.hpp"
#include "sessions/output_spool.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

constexpr AgentLimit send_limit = std::chrono::seconds(60);
// What the agent gets beyond the command's own time to kill its tree and to say so.
constexpr AgentLimit kill_grace = std::chrono::seconds(30);

// The time that is left until the agent must have ended the command; empty where the command has no
// limit.
class CommandClock {
public:
  explicit CommandClock(std::chrono::seconds timeout)
      : limited_(timeout.count() > 0),
        end_(std::chrono::steady_clock::now() + timeout + kill_grace) {}

  [[nodiscard]] std::optional<AgentLimit> left() const {
    if (!limited_) return std::nullopt;
    const auto rest =
        std::chrono::duration_cast<AgentLimit>(end_ - std::chrono::steady_clock::now());
    return std::max(rest, AgentLimit(0));
  }

private:
  bool limited_;
  std::chrono::steady_clock::time_point end_;
};

asio::awaitable<void> keep(OutputSpool& spool, std::string bytes, asio::thread_pool& pool) {
  if (spool.append_blocks(bytes.size())) {
    auto write = [&spool, bytes = std::move(bytes)] { spool.append(bytes); };
    co_await on_pool(pool, std::move(write));
  } else {
    spool.append(bytes);
  }
}

agent::ExecDone decode_done(const AgentFrame& frame) {
  if (frame.type == static_cast<std::uint8_t>(agent::AnswerType::failed)) {
    throw AgentError(
        AgentFault::refused,
        fmt::format("agent: exec failed: {}", agent::Failed::decode(frame.payload).message));
  }
  if (frame.type != static_cast<std::uint8_t>(agent::AnswerType::exec_done)) {
    throw AgentError(AgentFault::malformed,
                     fmt::format("agent: unexpected answer of type {}", frame.type));
  }
  return agent::ExecDone::decode(frame.payload);
}

agent::ExecDone parse_done(const AgentFrame& frame) {
  try {
    return decode_done(frame);
  } catch (const wire::DecodeError& error) {
    throw AgentError(AgentFault::malformed, fmt::format("agent: {}", error.what()));
  }
}

}  // namespace

asio::awaitable<ExecOutcome> exec_command(AgentConnection connection, ExecPlan plan,
                                          asio::thread_pool& pool) {
  agent::ExecRequest request;
  request.command = plan.command;
  request.timeout = plan.timeout;
  request.max_output_bytes = plan.max_output_bytes;
  const CommandClock clock(plan.timeout);
  co_await connection.send(static_cast<std::uint8_t>(agent::RequestType::exec), request.encode(),
                           send_limit);
  auto spool = std::make_unique<OutputSpool>(plan.spool_directory);
  AgentFrame frame = co_await connection.receive(clock.left());
  while (frame.type == static_cast<std::uint8_t>(agent::AnswerType::output)) {
    if (frame.payload.size() > plan.max_output_bytes - spool->size()) {
      throw AgentError(AgentFault::malformed, "agent: sends more output than was asked for");
    }
    co_await keep(*spool, std::move(frame.payload), pool);
    frame = co_await connection.receive(clock.left());
  }
  const CommandEnding ending =
      plan_ending(parse_done(frame), {spool->size(), spool->last()},
                  {.timeout = plan.timeout, .memory_bytes = plan.memory_bytes});
  co_await keep(*spool, ending.appended, pool);
  ExecOutcome outcome;
  outcome.result.command = std::move(plan.command);
  outcome.result.output = std::move(spool);
  outcome.result.exit_code = ending.exit_code;
  outcome.rest = ending.rest;
  co_return outcome;
}

}  // namespace daiv::sessions
