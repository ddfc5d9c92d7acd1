#pragma once

#include <string>

#include "os/unique_fd.hpp"

namespace daiv::cli {

// Writes the directory `path` (an OCI image layout: regular files in folders) as a pax tar to
// `output`. Only reads and copies; links and special files are left out. Throws os::Error; EPIPE
// where the reader has gone.
void write_tar(const std::string& path, const os::UniqueFd& output);

}  // namespace daiv::cli
