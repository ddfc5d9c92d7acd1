#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/privileges.hpp"
#include "cli/program_paths.hpp"
#include "cli/settings.hpp"
#include "os/unique_fd.hpp"

namespace daiv::cli {

struct BrokerProcess {
  os::UniqueFd socket;  // our end; the broker ends when it closes
  pid_t pid = 0;        // 0: a unit of its own, no child of ours
};

// Whether the broker's socket is the front's other end, or listens for it.
enum class BrokerSocket : std::uint8_t { connected, listening };

// The broker's arguments, its name first.
std::vector<std::string> plan_broker_arguments(const Settings& settings, const User& front,
                                               const ProgramPaths& programs,
                                               BrokerSocket kind = BrokerSocket::connected);

// Starts the broker as a child with its socket as descriptor 3, standard output and error as ours,
// and nothing else of ours: no other descriptor, and of the environment PATH alone. Called while
// the process has one thread.
BrokerProcess start_broker(const std::vector<std::string>& arguments, const std::string& program);

// Becomes the broker in the same way, with `listener` as its socket; of the environment it keeps
// PATH and the service manager's socket. Does not return. Throws os::Error.
[[noreturn]] void become_broker(os::UniqueFd listener, const std::vector<std::string>& arguments,
                                const std::string& program);

// Connects to a broker that is a unit of its own and waits for it to have set up what it shares
// with the front: directories, and what an earlier broker left. Throws std::runtime_error.
BrokerProcess connect_to_broker(const std::string& path);

}  // namespace daiv::cli
