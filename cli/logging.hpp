#pragma once

#include "cli/settings.hpp"

namespace daiv::cli {

// Sets up the daemon's log: lines on standard error, for people or as JSON; under systemd
// (JOURNAL_STREAM is set) with the journal's level prefix in place of the time (sd-daemon(3)).
void set_up_logging(LogLevel level, LogFormat format);

}  // namespace daiv::cli
