#pragma once

#include <sys/types.h>

#include "os/service_manager.hpp"
#include "os/unique_fd.hpp"

namespace daiv::runtime {

// Waits on `listener` (SEQPACKET) for a front: a peer that connected as `front_uid`. Whoever else
// connects is logged and cut off. Feeds the watchdog meanwhile. Throws os::Error where the listener
// is no good.
os::UniqueFd accept_front(const os::UniqueFd& listener, uid_t front_uid, os::Watchdog& watchdog);

}  // namespace daiv::runtime
