#pragma once

#include "os/unique_fd.hpp"

namespace daiv::agent {

// Blocks the signal in this process and returns a non-blocking descriptor that is readable when it
// comes (signalfd(2)). Throws os::Error.
os::UniqueFd open_signals(int signal);

}  // namespace daiv::agent
