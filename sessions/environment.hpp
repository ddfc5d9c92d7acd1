#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace daiv::sessions {

using Environment = std::vector<std::pair<std::string, std::string>>;

// What execve(2) takes for one NAME=value (MAX_ARG_STRLEN with its end), and what we take of all.
inline constexpr std::size_t max_variable_bytes = (128U << 10) - 1;
inline constexpr std::size_t max_environment_bytes = 1U << 20;

// Why a client's environment can't be given to commands, for the client; empty where it can.
std::optional<std::string> find_environment_fault(const Environment& requested);

// The whole environment of a session's commands as NAME=value: the image's (entries without "=" are
// dropped), then the request's over it, then HOME and the XDG folders, which nobody can change;
// PATH where neither has one. Nothing of the host is in it.
std::vector<std::string> plan_environment(const std::vector<std::string>& image,
                                          const Environment& requested);

}  // namespace daiv::sessions
