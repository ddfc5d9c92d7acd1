#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/protocol.hpp"
#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"
#include "sessions/egress_policy.hpp"

namespace daiv::sessions {

// What sessions need of the egress proxy. Used on the io thread.
class EgressGate {
public:
  virtual ~EgressGate() = default;
  // Serves the session from when this returns; in place of earlier sockets and an earlier policy.
  // `sockets` as the broker gives them (netns/proxy_sockets.hpp).
  virtual void open(const std::string& session, std::vector<os::UniqueFd> sockets,
                    const EgressPolicy& policy) = 0;
  // For the next request. False: the session is not served.
  virtual bool update(const std::string& session, const EgressPolicy& policy) = 0;
  // Nothing where it is not served.
  virtual void close(const std::string& session) = 0;
  [[nodiscard]] virtual bool serves(const std::string& session) const = 0;
  // The CA that sandboxes are to trust from now on.
  [[nodiscard]] virtual agent::Trust trust() const = 0;
};

// Sessions with egress, where the deployment offers it.
struct EgressSetup {
  EgressGate* gate = nullptr;  // outlives the sessions; empty: no session can have egress
  std::uint16_t port = 0;      // of the proxy, inside the sessions' networks
  bool transparent = false;    // programs that know no proxy reach it, too
  std::string directory;       // one file per session with its policy: on tmpfs, 0700
  // The addresses of the session with this uid range.
  std::function<runtime::EgressLink(std::uint32_t uid_base)> plan_link;
};

}  // namespace daiv::sessions
