#pragma once

#include <string>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::runtime {

// The layers `names` below `layers`, bottom first, as one tree for the unpacker: a detached mount,
// read only, without devices, programs and set-id bits. Empty for no names. Moves this process into
// a mount namespace of its own where there are several. Throws os::Error.
os::UniqueFd mount_parents(const os::UniqueFd& layers, const std::vector<std::string>& names);

// The option string of the overlay, for a mounter in the directory of the layers. Pure.
std::string plan_parents_options(const std::vector<std::string>& names);

}  // namespace daiv::runtime
