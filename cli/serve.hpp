#pragma once

#include "cli/settings.hpp"

namespace daiv::cli {

// `daiv-sandbox serve`: prepares as root what needs root, starts the broker, becomes the front, and
// serves until SIGTERM or SIGINT. Returns the exit code; what keeps it from starting is one line
// each on standard error.
int serve(const LoadedSettings& loaded);

}  // namespace daiv::cli
