#pragma once

#include <mutex>
#include <vector>

#include "sentry/envelope.hpp"
#include "sentry/transport.hpp"

namespace daiv::sentry {

enum class LogForwarding { off, on };  // DAIV_SANDBOX_SENTRY_ENABLE_LOGS

// What the service tells Sentry: errors as events, log lines where that is on, a sample of requests
// as transactions. Thread-safe; nothing here waits for the network.
class Client {
public:
  Client(Process process, LogForwarding logs, Dsn dsn, TransportLimits limits = {});

  // A log line: an event from Level::error on, a log item where forwarding is on. Log items are
  // sent in groups: every max_grouped_logs lines, or by flush().
  void log(LogRecord record);

  // A finished request; sent with the probability of traces_sample_rate.
  void request(const Request& request);

  // Sends what is grouped; waits at most `limit` for all that is queued.
  void flush(std::chrono::milliseconds limit);

  [[nodiscard]] const Transport& transport() const noexcept { return transport_; }

private:
  void send_grouped(std::vector<LogRecord> records);

  Process process_;
  LogForwarding logs_;
  std::mutex mutex_;
  std::vector<LogRecord> grouped_;
  Time grouped_since_;
  Transport transport_;
};

}  // namespace daiv::sentry
