#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/privileges.hpp"
#include "cli/program_paths.hpp"
#include "cli/settings.hpp"
#include "os/unique_fd.hpp"

namespace daiv::cli {

struct BrokerProcess {
  os::UniqueFd socket;  // our end; the broker ends when it closes
  os::UniqueFd pidfd;
  pid_t pid = 0;
};

// The broker's arguments, its name first.
std::vector<std::string> plan_broker_arguments(const Settings& settings, const User& front,
                                               const ProgramPaths& programs);

// Starts the broker as a child with its socket as descriptor 3, standard output and error as ours,
// and nothing else of ours: no other descriptor, and of the environment PATH alone. Called while
// the process has one thread.
BrokerProcess start_broker(const std::vector<std::string>& arguments, const std::string& program);

}  // namespace daiv::cli
