#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <string>

namespace daiv::sessions {

// Asks the agent to end all processes of its session: SIGTERM, and SIGKILL after `grace`. Returns
// when they are gone, at once where there are none. An agent that does not answer in time is given
// up: whoever calls this kills it next.
boost::asio::awaitable<void> terminate_processes(std::string agent_socket,
                                                 std::chrono::milliseconds grace);

}  // namespace daiv::sessions
