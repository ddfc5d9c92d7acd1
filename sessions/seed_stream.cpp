#include "sessions/seed_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "sessions/session_service.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

constexpr AgentLimit send_limit = std::chrono::seconds(60);  // without progress of one chunk
constexpr AgentLimit commit_limit =
    std::chrono::seconds(300);  // the rest of the unpacking and the renames

agent::SeedDone parse_verdict(const AgentFrame& frame) {
  try {
    if (frame.type == static_cast<std::uint8_t>(agent::AnswerType::seed_done)) {
      return agent::SeedDone::decode(frame.payload);
    }
    if (frame.type == static_cast<std::uint8_t>(agent::AnswerType::failed)) {
      return {agent::SeedOutcome::failed, agent::SeedTarget::repo,
              agent::Failed::decode(frame.payload).message};
    }
  } catch (const wire::DecodeError& error) {
    throw AgentError(AgentFault::malformed, fmt::format("agent: {}", error.what()));
  }
  throw AgentError(AgentFault::malformed,
                   fmt::format("agent: unexpected answer of type {}", frame.type));
}

const char* name_of(agent::SeedTarget target) {
  switch (target) {
    case agent::SeedTarget::repo:
      return "repo";
    case agent::SeedTarget::skills:
      return "skills";
  }
  return "";
}

std::string accept_verdict(agent::SeedDone verdict) {
  switch (verdict.outcome) {
    case agent::SeedOutcome::seeded:
      return std::move(verdict.message);
    case agent::SeedOutcome::invalid_archive:
      throw SessionError(
          SessionFailure::invalid_seed,
          fmt::format("{}_archive is invalid: {}", name_of(verdict.target), verdict.message));
    case agent::SeedOutcome::too_large:
      throw SessionError(SessionFailure::too_large, std::move(verdict.message));
    case agent::SeedOutcome::no_space:
      throw SessionError(SessionFailure::unavailable, std::move(verdict.message));
    case agent::SeedOutcome::failed:
      break;
  }
  throw AgentError(AgentFault::refused, fmt::format("agent: seed failed: {}", verdict.message));
}

}  // namespace

asio::awaitable<SeedStream> SeedStream::open(AgentConnection connection,
                                             agent::SeedRequest limits) {
  co_await connection.send(static_cast<std::uint8_t>(agent::RequestType::seed), limits.encode(),
                           send_limit);
  co_return SeedStream(std::move(connection));
}

asio::awaitable<void> SeedStream::write(agent::SeedTarget target, std::string bytes) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    agent::SeedData data;
    data.target = target;
    data.bytes = rest.substr(0, agent::chunk_bytes);
    rest.remove_prefix(data.bytes.size());
    co_await send(data);
  }
}

asio::awaitable<void> SeedStream::end(agent::SeedTarget target) {
  agent::SeedData data;
  data.target = target;
  data.last = true;
  co_await send(data);
}

asio::awaitable<void> SeedStream::send(agent::SeedData data) {
  const bool sent = co_await connection_.send_unless_answered(
      static_cast<std::uint8_t>(agent::RequestType::seed_data), data.encode(), send_limit);
  if (sent) co_return;
  co_await receive_verdict();
  throw AgentError(AgentFault::malformed, "agent: seeded before the end of the archives");
}

asio::awaitable<std::string> SeedStream::commit() {
  co_await connection_.send_unless_answered(static_cast<std::uint8_t>(agent::RequestType::seed_end),
                                            std::string(), send_limit);
  std::string summary = co_await receive_verdict();
  co_return summary;
}

asio::awaitable<std::string> SeedStream::receive_verdict() {
  const AgentFrame frame = co_await connection_.receive(commit_limit);
  co_return accept_verdict(parse_verdict(frame));
}

}  // namespace daiv::sessions
