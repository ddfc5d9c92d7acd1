#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "images/image_service.hpp"

namespace daiv::images {

// Does what several callers want at once a single time: the first does it, the others get what came
// out, errors too. One that was cancelled by its own caller is done again by the next.
template <typename Value>
class SingleFlight {
public:
  // Calls `work` or waits for another's. Throws what the work threw, or ImageError{cancelled} after
  // a stop.
  Value run(const std::string& key, const std::stop_token& stop,
            const std::function<Value()>& work) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto found = flights_.find(key);
      if (found == flights_.end()) break;
      const std::shared_ptr<Flight> flight = found->second;
      landed_.wait(lock, stop, [&] { return flight->landed; });
      if (!flight->landed) throw ImageError(ImageFailure::cancelled, "cancelled");
      if (flight->value) return *flight->value;
      if (!flight->cancelled) std::rethrow_exception(flight->error);
    }
    // Shared by its leader and by who waits for it.
    const auto flight = flights_[key] = std::make_shared<Flight>();
    lock.unlock();
    fly(*flight, work);
    lock.lock();
    flight->landed = true;
    flights_.erase(key);
    landed_.notify_all();
    if (flight->error) std::rethrow_exception(flight->error);
    return *flight->value;
  }

private:
  struct Flight {
    bool landed = false;
    bool cancelled = false;
    std::optional<Value> value;
    std::exception_ptr error;
  };

  static void fly(Flight& flight, const std::function<Value()>& work) noexcept {
    try {
      flight.value = work();
    } catch (const ImageError& error) {
      flight.cancelled = error.failure() == ImageFailure::cancelled;
      flight.error = std::current_exception();
    } catch (...) {
      flight.error = std::current_exception();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any landed_;
  std::map<std::string, std::shared_ptr<Flight>> flights_;
};

}  // namespace daiv::images
