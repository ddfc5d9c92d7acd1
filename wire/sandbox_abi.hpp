#pragma once

#include <string_view>

// What the broker's child leaves open for the agent that it executes. Everything else is closed
// (close_range(2)), no signal is ignored or blocked. The agent makes each of them close-on-exec
// before it starts anything.
namespace daiv::wire {

enum AgentFd : int {
  agent_listener_fd = 3,  // listening unix stream socket, bound at the session's agent.sock
  agent_config_fd =
      4,  // sealed memfd: agent::Config, encoded; written by the front, opaque to the broker
  agent_seccomp_fd =
      5,  // sealed memfd: the command's filter, an array of struct sock_filter (seccomp(2))
  agent_cgroup_fd = 6,  // O_PATH directory: the session's cgroup, delegated to the session's root
  agent_status_fd = 7,  // write end of a pipe: the agent writes one byte "r" when it listens and is
                        // ready, or an error text, then closes it
};

// How an agent's error text begins where the image is at fault, so that the caller hears of it.
inline constexpr std::string_view image_refuses_ca = "the image can't take the egress CA";

}  // namespace daiv::wire
