#include "api/operation_metrics.hpp"

#include <fmt/format.h>

namespace daiv::api {

void OperationMetrics::record(std::string_view operation, std::string_view outcome,
                              std::chrono::nanoseconds duration) {
  ++outcomes_[{operation, outcome}];
  durations_[operation].record(duration);
}

void OperationMetrics::expose(std::string& out) const {
  constexpr std::string_view total = "daiv_sandbox_operations_total";
  constexpr std::string_view duration = "daiv_sandbox_operation_duration_seconds";
  declare_metric(out, total, "counter", "Operations on sessions by kind and outcome.");
  for (const auto& [key, count] : outcomes_)
    out += fmt::format("{}{{operation=\"{}\",outcome=\"{}\"}} {}\n", total, key.first, key.second,
                       count);
  declare_metric(out, duration, "histogram",
                 "Time of operations on sessions, with waiting for their turn.");
  for (const auto& [operation, histogram] : durations_)
    histogram.expose(out, duration, fmt::format("operation=\"{}\"", operation));
}

}  // namespace daiv::api
