#include "cli/pull_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>

namespace daiv::cli {
namespace {

using images::ImageFailure;
using images::PullEvent;
using std::chrono::steady_clock;

std::string name(ImageFailure failure) {
  switch (failure) {
    case ImageFailure::invalid_reference:
      return "invalid_reference";
    case ImageFailure::not_found:
      return "not_found";
    case ImageFailure::denied:
      return "denied";
    case ImageFailure::wrong_platform:
      return "wrong_platform";
    case ImageFailure::invalid_image:
      return "invalid_image";
    case ImageFailure::blocked:
      return "blocked";
    case ImageFailure::unreachable:
      return "unreachable";
    case ImageFailure::rate_limited:
      return "rate_limited";
    case ImageFailure::no_space:
      return "no_space";
    case ImageFailure::cancelled:
      return "cancelled";
    case ImageFailure::internal:
      break;
  }
  return "internal";
}

// What one call's events amount to; they come from several threads.
struct Progress {
  std::mutex mutex;
  bool begun = false;
  std::map<std::string, std::uint64_t> layers;

  void note(const PullEvent& event) {
    const std::scoped_lock lock(mutex);
    if (event.stage == PullEvent::Stage::resolving) begun = true;
    if (event.stage != PullEvent::Stage::downloading) return;
    std::uint64_t& bytes = layers[event.layer];
    bytes = std::max(bytes, event.bytes);
  }
  std::uint64_t bytes() {
    const std::scoped_lock lock(mutex);
    std::uint64_t all = 0;
    for (const auto& [layer, bytes] : layers) all += bytes;
    return all;
  }
};

}  // namespace

images::Image PullMetrics::watch(const images::PullObserver& observer, const Ensure& ensure) {
  Progress progress;
  const auto start = steady_clock::now();
  const auto note = [&](const PullEvent& event) {
    progress.note(event);
    if (observer) observer(event);
  };
  const auto end = [&](const std::string& outcome) {
    record(outcome, progress.bytes(), steady_clock::now() - start);
  };
  try {
    images::Image image = ensure(note);
    if (progress.begun) end("ok");
    return image;
  } catch (const images::ImageError& error) {
    end(name(error.failure()));
    throw;
  } catch (const std::exception&) {
    end("internal");
    throw;
  }
}

void PullMetrics::record(const std::string& outcome, std::uint64_t bytes,
                         std::chrono::nanoseconds duration) {
  const std::scoped_lock lock(mutex_);
  ++outcomes_[outcome];
  bytes_ += bytes;
  durations_.record(duration);
}

std::string PullMetrics::expose() const {
  constexpr const char* duration = "daiv_sandbox_image_pull_duration_seconds";
  const std::scoped_lock lock(mutex_);
  std::string out;
  api::declare_metric(out, "daiv_sandbox_image_pulls_total", "counter",
                      "Image pulls by outcome; images that were present are none.");
  for (const auto& [outcome, count] : outcomes_)
    out += fmt::format("daiv_sandbox_image_pulls_total{{outcome=\"{}\"}} {}\n", outcome, count);
  api::declare_metric(out, "daiv_sandbox_image_pull_bytes_total", "counter",
                      "Compressed bytes of layers that pulls brought.");
  out += fmt::format("daiv_sandbox_image_pull_bytes_total {}\n", bytes_);
  api::declare_metric(out, duration, "histogram", "Time of image pulls, failed ones too.");
  durations_.expose(out, duration, "source=\"registry\"");
  return out;
}

}  // namespace daiv::cli
