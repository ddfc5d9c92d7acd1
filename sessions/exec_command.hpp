#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <cstdint>
#include <string>

#include "sessions/agent_client.hpp"
#include "sessions/command_ending.hpp"
#include "sessions/session_service.hpp"

namespace daiv::sessions {

struct ExecPlan {
  std::string command;
  std::chrono::seconds timeout{0};     // 0: none
  std::uint64_t memory_bytes = 0;      // the session's limit; 0: none
  std::uint64_t max_output_bytes = 0;  // kept of the output
  std::string spool_directory;         // for what does not fit into memory
};

struct ExecOutcome {
  CommandResult result;
  Rest rest = Rest::run;
};

// Runs one command over a fresh connection and collects its output. A cancelled caller closes the
// connection, which ends the command. Throws AgentError; os::Error where the spool can't be
// written.
boost::asio::awaitable<ExecOutcome> exec_command(AgentConnection connection, ExecPlan plan,
                                                 boost::asio::thread_pool& pool);

}  // namespace daiv::sessions
