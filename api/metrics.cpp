#include "api/metrics.hpp"

#include <fmt/format.h>

namespace daiv::api {
void Metrics::record(std::string_view method, std::string_view route, int status,
                     std::chrono::nanoseconds duration, std::uint64_t sent_bytes) {
  const Operation operation(method, route);
  ++requests_[{operation, status}];
  durations_[operation].record(duration);
  sent_bytes_ += sent_bytes;
}

void Metrics::expose_durations(std::string& out) const {
  constexpr std::string_view name = "daiv_sandbox_http_request_duration_seconds";
  declare_metric(out, name, "histogram", "Time from a request's head to the end of its answer.");
  for (const auto& [operation, histogram] : durations_)
    histogram.expose(out, name,
                     fmt::format(R"(method="{}",route="{}")", operation.first, operation.second));
}

std::string Metrics::expose(const sessions::SessionService::Counts& sessions) const {
  std::string out;
  declare_metric(out, "daiv_sandbox_sessions", "gauge", "Sessions by state.");
  out += fmt::format("daiv_sandbox_sessions{{state=\"running\"}} {}\n", sessions.running);
  out += fmt::format("daiv_sandbox_sessions{{state=\"stopped\"}} {}\n", sessions.stopped);
  declare_metric(out, "daiv_sandbox_http_connections", "gauge", "Open client connections.");
  out += fmt::format("daiv_sandbox_http_connections {}\n", connections_);
  declare_metric(out, "daiv_sandbox_tls_handshake_failures_total", "counter",
                 "Connections cut because they did not get to speak TLS.");
  out += fmt::format("daiv_sandbox_tls_handshake_failures_total {}\n", failed_handshakes_);
  declare_metric(out, "daiv_sandbox_http_sent_bytes_total", "counter", "Bytes of answers' bodies.");
  out += fmt::format("daiv_sandbox_http_sent_bytes_total {}\n", sent_bytes_);
  declare_metric(out, "daiv_sandbox_http_requests_total", "counter",
                 "Requests by route and status; status 0: client gone.");
  for (const auto& [key, count] : requests_)
    out += fmt::format(
        "daiv_sandbox_http_requests_total{{method=\"{}\",route=\"{}\",status=\"{}\"}} {}\n",
        key.first.first, key.first.second, key.second, count);
  expose_durations(out);
  return out;
}

}  // namespace daiv::api
