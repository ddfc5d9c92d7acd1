#include "runtime/front_connection.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>

#include "os/error.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"

namespace daiv::runtime {

os::UniqueFd accept_front(const os::UniqueFd& listener, uid_t front_uid, os::Watchdog& watchdog) {
  for (;;) {
    if (os::wait_for(listener, POLLIN, watchdog.feed()) == os::Readiness::timed_out) continue;
    try {
      os::UniqueFd front = os::accept_connection(listener);
      const os::PeerCredentials peer = os::peer_credentials(front);
      if (peer.uid == front_uid) return front;
      fmt::print(stderr, "level=warning event=front_refused uid={} pid={}\n", peer.uid, peer.pid);
    } catch (const os::Error& error) {
      if (error.error_number() != ECONNABORTED) throw;  // it has gone again (accept(2))
    }
  }
}

}  // namespace daiv::runtime
