#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

// Parts of the text exposition format of Prometheus, version 0.0.4.
namespace daiv::api {

// The two lines that introduce a metric.
void declare_metric(std::string& out, std::string_view name, std::string_view type,
                    std::string_view help);

// Durations in buckets from 1 ms to 2 minutes.
class Histogram {
public:
  void record(std::chrono::nanoseconds duration);

  // Appends its series; `labels` as in `method="GET",route="/"`, not empty.
  void expose(std::string& out, std::string_view name, std::string_view labels) const;

private:
  static constexpr std::array<double, 12> bounds_{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                  0.1,   0.25,   1,     5,    30,    120};
  std::array<std::uint64_t, bounds_.size()> buckets_{};  // not cumulative
  std::uint64_t count_ = 0;
  double sum_seconds_ = 0;
};

}  // namespace daiv::api
