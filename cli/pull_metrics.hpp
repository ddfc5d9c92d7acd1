#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "api/histogram.hpp"
#include "images/image_service.hpp"

namespace daiv::cli {

// Counts image pulls for /-/metrics. Thread-safe.
class PullMetrics {
public:
  using Ensure = std::function<images::Image(const images::PullObserver& observer)>;

  // Calls `ensure` with an observer that passes everything on to `observer` (may be empty), and
  // records what it did: nothing where the image was there already or another call pulls it.
  images::Image watch(const images::PullObserver& observer, const Ensure& ensure);

  // In the text exposition format.
  [[nodiscard]] std::string expose() const;

private:
  void record(const std::string& outcome, std::uint64_t bytes, std::chrono::nanoseconds duration);

  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> outcomes_;
  std::uint64_t bytes_ = 0;
  api::Histogram durations_;
};

}  // namespace daiv::cli
