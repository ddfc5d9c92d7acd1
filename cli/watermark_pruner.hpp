#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "images/image_service.hpp"

namespace daiv::cli {

// Keeps images below the disk's watermark: every minute, and soon after it was told that the disk
// may have filled, a thread removes the images that nobody has used for longest. One log line a
// removal.
class WatermarkPruner {
public:
  struct Timing {
    std::chrono::milliseconds interval{60'000};
    // Removed layers are deleted in the background: only then does the disk show it.
    std::chrono::milliseconds rest{5'000};
  };
  // One sweep: images::ImageService::prune with the scope above_watermark.
  using Sweep = std::function<images::ImageService::PruneReport()>;

  explicit WatermarkPruner(Sweep sweep) : WatermarkPruner(std::move(sweep), Timing{}) {}
  WatermarkPruner(Sweep sweep, Timing timing);
  // Waits for a sweep that has begun.
  ~WatermarkPruner();
  WatermarkPruner(const WatermarkPruner&) = delete;
  WatermarkPruner& operator=(const WatermarkPruner&) = delete;

  // After a pull or a load. From any thread; returns at once.
  void disk_filled();

private:
  void work(const std::stop_token& stop);
  void sweep() noexcept;

  Sweep sweep_;
  Timing timing_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool asked_ = false;
  std::jthread thread_;
};

}  // namespace daiv::cli
