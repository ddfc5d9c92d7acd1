#include "cli/watermark_pruner.hpp"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace daiv::cli {

WatermarkPruner::WatermarkPruner(Sweep sweep, Timing timing)
    : sweep_(std::move(sweep)),
      timing_(timing),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

WatermarkPruner::~WatermarkPruner() = default;

void WatermarkPruner::disk_filled() {
  {
    const std::lock_guard lock(mutex_);
    asked_ = true;
  }
  changed_.notify_one();
}

void WatermarkPruner::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, timing_.interval, [&] { return asked_; });
      asked_ = false;
    }
    if (stop.stop_requested()) return;
    sweep();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, timing_.rest, [] { return false; });
  }
}

void WatermarkPruner::sweep() noexcept {
  try {
    const auto report = sweep_();
    for (const std::string& image : report.images)
      spdlog::info("event=image_removed reason=disk_watermark image={}", image);
    if (report.layers > 0)
      spdlog::info("event=layers_removed reason=disk_watermark layers={} bytes={}", report.layers,
                   report.freed_bytes);
  } catch (const std::exception& error) {
    spdlog::error("event=prune_failed error=\"{}\"", error.what());
  }
}

}  // namespace daiv::cli
