#pragma once

#include "os/unique_fd.hpp"
#include "runtime/broker_options.hpp"

namespace daiv::runtime {

// The agent, ready to be executed by descriptor in every sandbox: a sealed memfd with no path,
// which nobody in a sandbox may read or write (CVE-2019-5736). Throws os::Error where the options
// name no such file.
os::UniqueFd open_agent_program(const BrokerOptions& options);

}  // namespace daiv::runtime
