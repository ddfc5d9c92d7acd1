#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "images/image_database.hpp"
#include "os/unique_fd.hpp"

namespace daiv::images {

// Sees to it that layers survive a power cut, without a pull having to wait for the disk: a thread
// syncs the file system and then marks the layers that were complete before.
class DurableLayers {
public:
  // `state_dir` must be on the file system of the layers. Keeps a reference to `database`.
  DurableLayers(ImageDatabase& database, const std::string& state_dir);
  ~DurableLayers();
  DurableLayers(const DurableLayers&) = delete;
  DurableLayers& operator=(const DurableLayers&) = delete;

  // All layers that the database has now.
  void sync_all();

private:
  void work(const std::stop_token& stop) noexcept;

  ImageDatabase& database_;
  os::UniqueFd file_system_;
  std::mutex mutex_;
  std::condition_variable_any wanted_;
  bool asked_ = false;
  std::jthread thread_;
};

}  // namespace daiv::images
