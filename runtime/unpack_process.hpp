#pragma once

#include <cstdint>
#include <string>

#include "os/unique_fd.hpp"

namespace daiv::runtime {

struct UnpackJob {
  std::string program;         // path of daiv-sandbox-unpack
  std::uint32_t storage_base;  // the namespace's ids 0 to 65,535 are the host's from here on
  std::uint64_t max_bytes;
  std::uint64_t max_entries;
  bool above_others;  // there are layers below it, given or not
};

// Runs the unpacker as root of a user namespace over the storage range, with mount, network, ipc
// and pid namespaces of its own: standard streams /dev/null, the layer's bytes on descriptor 3, its
// result on 4, the layer's directory on 5 and as the working directory, `parents` (the layers
// below, a detached mount; may be empty) on 6, nothing else. Returns the record it wrote; it has
// ended when this returns. Throws os::Error, also where it ended without a record.
std::string run_unpacker(const UnpackJob& job, const os::UniqueFd& input,
                         const os::UniqueFd& directory, const os::UniqueFd& parents);

}  // namespace daiv::runtime
