#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

#include "cli/egress_log.hpp"
#include "os/unique_fd.hpp"

namespace daiv::cli {

// Sends the session's decisions to `client`, each an {"event": "decision", "entry": …, "text": the
// line of the daemon's log}; with {"follow": true} those to come as well, until the client hangs up
// or `is_there` (asked now and then) says that the session is gone. Blocks. Throws ControlFailure.
nlohmann::json send_egress_log(EgressLog& log, const os::UniqueFd& client,
                               const nlohmann::json& request,
                               const std::function<bool(const std::string&)>& is_there);

}  // namespace daiv::cli
