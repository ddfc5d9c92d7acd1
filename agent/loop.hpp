#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::agent {

// The agent's only thread: waits for descriptors and times (epoll(7)). Everything runs on it,
// nothing may block.
class Loop {
public:
  using Clock = std::chrono::steady_clock;
  using EventCallback = std::function<void(std::uint32_t events)>;

  // Throws os::Error.
  Loop();

  // Runs `task` after the callbacks of this turn: the way for an object to let itself be destroyed.
  void post(std::function<void()> task) { posted_.push_back(std::move(task)); }

  // Never returns but by an exception from a callback or from epoll.
  [[noreturn]] void run();

private:
  friend class Watch;
  friend class Timer;

  void run_turn();
  void run_due_timers();
  void run_posted();
  [[nodiscard]] int wait_ms() const;

  os::UniqueFd epoll_;
  std::uint64_t last_token_ = 0;
  // Events name a token, never an fd: one of a closed and reused fd finds nothing here.
  std::unordered_map<std::uint64_t, std::shared_ptr<EventCallback>> watches_;
  struct Due {
    Clock::time_point when;
    std::shared_ptr<std::function<void()>> callback;
  };
  std::unordered_map<std::uint64_t, Due> timers_;
  std::vector<std::function<void()>> posted_;
};

// Watches one descriptor for as long as it lives. It must go before the descriptor does: declare it
// after it.
class Watch {
public:
  Watch() noexcept = default;
  Watch(Loop& loop, const os::UniqueFd& fd, std::uint32_t events, Loop::EventCallback callback);
  Watch(Watch&& other) noexcept;
  Watch& operator=(Watch&& other) noexcept;
  ~Watch() { reset(); }

  void reset() noexcept;
  // Changes the events; no-op where they are the same.
  void set_events(std::uint32_t events);

private:
  Loop* loop_ = nullptr;
  int fd_ = -1;
  std::uint64_t token_ = 0;
  std::uint32_t events_ = 0;
};

// Calls back once, after `delay` however long it is, unless it is reset or destroyed before.
class Timer {
public:
  Timer() noexcept = default;
  Timer(Loop& loop, std::chrono::milliseconds delay, std::function<void()> callback);
  Timer(Timer&& other) noexcept;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer() { reset(); }

  void reset() noexcept;

private:
  Loop* loop_ = nullptr;
  std::uint64_t token_ = 0;
};

}  // namespace daiv::agent
