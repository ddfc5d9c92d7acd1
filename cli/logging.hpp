#pragma once

#include "cli/settings.hpp"

namespace daiv::cli {

// Sets up the daemon's log: lines on standard error, for people or as JSON. Where standard error is
// the journal's (systemd.exec(5), JOURNAL_STREAM) and JSON is not asked for, entries with fields go
// to the journal instead.
void set_up_logging(LogLevel level, LogFormat format);

}  // namespace daiv::cli
