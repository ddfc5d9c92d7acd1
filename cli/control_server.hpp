#pragma once

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cli/control_protocol.hpp"
#include "os/unique_fd.hpp"

namespace daiv::cli {

// Carries out one request on the connection's own thread; the result becomes {"end": result}.
using ControlHandler = std::function<nlohmann::json(
    const os::UniqueFd& client, const nlohmann::json& request, std::vector<os::UniqueFd> fds)>;

// Serves the control socket: a thread per connection, since its few clients are the host's
// operators and their commands block. A peer that is neither root nor `own_uid` is turned away.
class ControlServer {
public:
  ControlServer(os::UniqueFd listener, uid_t own_uid, ControlHandler handler);
  // close().
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Ends the connections and waits for their threads. Those may be waiting for the io thread, so it
  // must not be called there. Harmless when repeated.
  void close();

private:
  struct Connection;
  void accept_connections();
  void serve(const os::UniqueFd& client);
  void forget_finished();

  os::UniqueFd listener_;
  uid_t own_uid_;
  ControlHandler handler_;
  std::mutex mutex_;
  std::list<std::unique_ptr<Connection>> connections_;
  std::thread acceptor_;
};

}  // namespace daiv::cli
