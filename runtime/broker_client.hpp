#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "os/error.hpp"
#include "os/unique_fd.hpp"
#include "runtime/broker_protocol.hpp"

namespace daiv::runtime {

struct Reply {
  Answer answer;
  std::vector<os::UniqueFd> fds;
};

// The connection to the broker has ended: what was asked may have been done or not.
class BrokerGone : public os::Error {
public:
  BrokerGone();
};

// The front's side of the broker's socket. Thread-safe; call() blocks the calling thread until the
// answer is there, so the front calls it on its pool, never on an io thread. One reader thread
// hands answers to their callers.
class BrokerClient {
public:
  // Takes the connected SEQPACKET socket. The reader thread calls `on_gone` when the connection
  // ends, at the latest while this object is destroyed.
  explicit BrokerClient(os::UniqueFd socket, std::function<void()> on_gone = {});
  ~BrokerClient();
  BrokerClient(const BrokerClient&) = delete;
  BrokerClient& operator=(const BrokerClient&) = delete;

  // Sends `request` with `fds` (borrowed) and waits for its answer.
  // Throws BrokerGone: then and for every later call.
  Reply call(const Request& request, const std::vector<int>& fds = {});

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::runtime
