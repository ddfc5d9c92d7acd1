#pragma once

#include "cli/settings.hpp"

namespace daiv::cli {

// `daiv-sandbox broker`: becomes the broker for the front that connects on the socket that the
// service manager passed. It serves that one front and ends with it; the socket unit then starts
// the next, so that front and broker are always of one version. Returns only where it fails.
int run_broker(const LoadedSettings& loaded);

}  // namespace daiv::cli
