#pragma once

#include "cli/privileges.hpp"
#include "cli/settings.hpp"
#include "os/unique_fd.hpp"

namespace daiv::cli {

// Makes what is missing of the state and runtime directories: theirs 0711 and root's; `front` below
// both 0700 and the front's, and the locks that it takes. Root alone can. Throws os::Error.
void make_directories(const Settings& settings, const User& front);

// Each holds its directory for this daemon while it is open.
struct DirectoryLocks {
  os::UniqueFd state;
  os::UniqueFd runtime;
};

// Call after make_directories(). Throws std::runtime_error where another daemon has one of them.
DirectoryLocks lock_directories(const Settings& settings);

// Listens on the control socket, which only `front` (and root) may open. A socket that an earlier
// daemon left is replaced; call this with the directories locked.
os::UniqueFd listen_for_control(const Settings& settings, const User& front);

// Listens at DAIV_SANDBOX_UNIX_SOCKET, wherever the caller may make it: mode 0660, of `front` and
// its group. Empty where none is set. A socket that nobody listens on is replaced. Throws
// std::runtime_error where somebody does, or where a file of another kind is in the way.
os::UniqueFd listen_for_api(const Settings& settings, const User& front);

}  // namespace daiv::cli
