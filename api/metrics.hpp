#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "api/histogram.hpp"
#include "sessions/session_service.hpp"

namespace daiv::api {

// Counts what the server did, for Prometheus. Used on the io thread alone.
class Metrics {
public:
  // One answered request; `route` is a path template, `status` 0 for a client that went away.
  void record(std::string_view method, std::string_view route, int status,
              std::chrono::nanoseconds duration, std::uint64_t sent_bytes);
  void connection_opened() noexcept { ++connections_; }
  void connection_closed() noexcept { --connections_; }
  void handshake_failed() noexcept { ++failed_handshakes_; }

  // The text exposition format, version 0.0.4.
  [[nodiscard]] std::string expose(const sessions::SessionService::Counts& sessions) const;

private:
  using Operation = std::pair<std::string, std::string>;  // method, route

  void expose_durations(std::string& out) const;

  std::map<std::pair<Operation, int>, std::uint64_t> requests_;
  std::map<Operation, Histogram> durations_;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t connections_ = 0;
  std::uint64_t failed_handshakes_ = 0;
};

}  // namespace daiv::api
