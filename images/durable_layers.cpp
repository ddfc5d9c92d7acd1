#include "images/durable_layers.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <stop_token>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

DurableLayers::DurableLayers(ImageDatabase& database, const std::string& state_dir)
    : database_(database),
      file_system_(os::open_file(state_dir, O_RDONLY | O_DIRECTORY)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

DurableLayers::~DurableLayers() = default;

void DurableLayers::sync_all() {
  {
    const std::lock_guard lock(mutex_);
    asked_ = true;
  }
  wanted_.notify_one();
}

void DurableLayers::work(const std::stop_token& stop) noexcept {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!wanted_.wait(lock, stop, [&] { return asked_; })) return;
      asked_ = false;
    }
    try {
      const std::vector<std::string> layers = database_.volatile_layers();
      if (layers.empty()) continue;
      os::check(::syncfs(file_system_.get()), "syncfs", "state directory");
      database_.mark_durable(layers);
    } catch (const std::exception&) {
      continue;  // they stay unmarked, which costs a pull after a power cut and nothing else
    }
  }
}

}  // namespace daiv::images
