#include "api/metrics.hpp"

#include <fmt/format.h>

namespace daiv::api {
namespace {

void declare(std::string& out, std::string_view name, std::string_view type,
             std::string_view help) {
  out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

}  // namespace

void Metrics::record(std::string_view method, std::string_view route, int status,
                     std::chrono::nanoseconds duration, std::uint64_t sent_bytes) {
  const Operation operation(method, route);
  ++requests_[{operation, status}];
  Histogram& histogram = durations_[operation];
  const double seconds = std::chrono::duration<double>(duration).count();
  ++histogram.count;
  histogram.sum_seconds += seconds;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    if (seconds > bounds_[i]) continue;
    ++histogram.buckets[i];
    break;
  }
  sent_bytes_ += sent_bytes;
}

void Metrics::expose_durations(std::string& out) const {
  constexpr std::string_view name = "daiv_sandbox_http_request_duration_seconds";
  declare(out, name, "histogram", "Time from a request's head to the end of its answer.");
  for (const auto& [operation, histogram] : durations_) {
    const std::string labels =
        fmt::format(R"(method="{}",route="{}")", operation.first, operation.second);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      below += histogram.buckets[i];
      out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], below);
    }
    out += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, histogram.count);
    out += fmt::format("{}_sum{{{}}} {}\n", name, labels, histogram.sum_seconds);
    out += fmt::format("{}_count{{{}}} {}\n", name, labels, histogram.count);
  }
}

std::string Metrics::expose(const sessions::SessionService::Counts& sessions) const {
  std::string out;
  declare(out, "daiv_sandbox_sessions", "gauge", "Sessions by state.");
  out += fmt::format("daiv_sandbox_sessions{{state=\"running\"}} {}\n", sessions.running);
  out += fmt::format("daiv_sandbox_sessions{{state=\"stopped\"}} {}\n", sessions.stopped);
  declare(out, "daiv_sandbox_http_connections", "gauge", "Open client connections.");
  out += fmt::format("daiv_sandbox_http_connections {}\n", connections_);
  declare(out, "daiv_sandbox_http_sent_bytes_total", "counter", "Bytes of answers' bodies.");
  out += fmt::format("daiv_sandbox_http_sent_bytes_total {}\n", sent_bytes_);
  declare(out, "daiv_sandbox_http_requests_total", "counter",
          "Requests by route and status; status 0: client gone.");
  for (const auto& [key, count] : requests_)
    out += fmt::format(
        "daiv_sandbox_http_requests_total{{method=\"{}\",route=\"{}\",status=\"{}\"}} {}\n",
        key.first.first, key.first.second, key.second, count);
  expose_durations(out);
  return out;
}

}  // namespace daiv::api
