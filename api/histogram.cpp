#include "api/histogram.hpp"

#include <fmt/format.h>

namespace daiv::api {

void declare_metric(std::string& out, std::string_view name, std::string_view type,
                    std::string_view help) {
  out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

void Histogram::record(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  ++count_;
  sum_seconds_ += seconds;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    if (seconds > bounds_[i]) continue;
    ++buckets_[i];
    break;
  }
}

void Histogram::expose(std::string& out, std::string_view name, std::string_view labels) const {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    below += buckets_[i];
    out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], below);
  }
  out += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, count_);
  out += fmt::format("{}_sum{{{}}} {}\n", name, labels, sum_seconds_);
  out += fmt::format("{}_count{{{}}} {}\n", name, labels, count_);
}

}  // namespace daiv::api
