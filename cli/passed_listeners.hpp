#pragma once

#include <string>
#include <vector>

#include "cli/settings.hpp"
#include "os/service_manager.hpp"

// The API's sockets where a service manager opened them (systemd.socket(5)).
namespace daiv::cli {

// What keeps the daemon from serving on these sockets; one line each. They take the place of
// DAIV_SANDBOX_HOST and _PORT: where an operator set these, and the sockets are other ones, neither
// is obeyed silently. A socket called "https" asks for TLS.
std::vector<std::string> find_listener_conflicts(const LoadedSettings& loaded,
                                                 const std::vector<os::PassedSocket>& sockets);

// "127.0.0.1:8000", "[::]:8000", "unix:/run/name". Throws os::Error where it is no socket.
std::string describe_listener(const os::UniqueFd& socket);

}  // namespace daiv::cli
