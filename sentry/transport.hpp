#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "sentry/dsn.hpp"

namespace daiv::sentry {

struct TransportLimits {
  std::size_t max_queued_bytes = 4U << 20;  // what is offered above that is dropped and counted
  std::chrono::milliseconds request_timeout{5000};
  std::chrono::seconds max_pause{300};  // the most that a server's Retry-After is obeyed for
};

// Sends envelopes from a thread of its own, one after the other, in order. Whoever offers one never
// waits. While the server asks to be spared (429, Retry-After) envelopes are dropped, as Sentry
// wants it; one that cannot be delivered is dropped too: what watches the service must not grow on
// its failures.
class Transport {
public:
  explicit Transport(const Dsn& dsn, TransportLimits limits = {});
  // Drops what is queued; call flush() before, where that matters.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Queues one envelope. Thread-safe, never blocks on the network.
  void offer(std::string envelope);

  // Waits until the queue is empty, at most `limit`.
  void flush(std::chrono::milliseconds limit);

  [[nodiscard]] std::uint64_t sent() const noexcept;
  [[nodiscard]] std::uint64_t dropped() const noexcept;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::sentry
