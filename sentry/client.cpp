#include "sentry/client.hpp"

#include <sys/random.h>

#include <cstdint>
#include <limits>

namespace daiv::sentry {
namespace {

constexpr std::size_t max_grouped_logs = 100;
constexpr std::chrono::seconds max_grouped_age{5};

bool is_sampled(double rate) {
  if (rate <= 0) return false;
  std::uint32_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) return false;
  return static_cast<double>(value) <
         rate * (static_cast<double>(std::numeric_limits<std::uint32_t>::max()) + 1);
}

}  // namespace

Client::Client(Process process, LogForwarding logs, Dsn dsn, TransportLimits limits)
    : process_(std::move(process)), logs_(logs), transport_(std::move(dsn), limits) {}

void Client::log(LogRecord record) {
  if (record.level >= Level::error)
    transport_.offer(make_event_envelope(process_, make_ids(), record));
  if (logs_ == LogForwarding::off) return;
  std::vector<LogRecord> full;
  {
    const std::scoped_lock lock(mutex_);
    if (grouped_.empty()) grouped_since_ = record.time;
    const bool due = record.time - grouped_since_ >= max_grouped_age;
    grouped_.push_back(std::move(record));
    if (due || grouped_.size() >= max_grouped_logs) full.swap(grouped_);
  }
  send_grouped(std::move(full));
}

void Client::request(const Request& request) {
  if (is_sampled(process_.traces_sample_rate))
    transport_.offer(make_transaction_envelope(process_, make_ids(), request));
}

void Client::flush(std::chrono::milliseconds limit) {
  std::vector<LogRecord> rest;
  {
    const std::scoped_lock lock(mutex_);
    rest.swap(grouped_);
  }
  send_grouped(std::move(rest));
  transport_.flush(limit);
}

void Client::send_grouped(std::vector<LogRecord> records) {
  if (!records.empty()) transport_.offer(make_log_envelope(process_, make_ids(), records));
}

}  // namespace daiv::sentry
