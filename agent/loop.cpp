#include "agent/loop.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <utility>

#include "os/error.hpp"

namespace daiv::agent {

namespace {

// Ten years, which is as good as any longer time and does not overflow the clock.
constexpr std::chrono::milliseconds longest_delay{std::chrono::hours(10 * 365 * 24)};

// One operation that fails (memory, descriptors) must not end PID 1, and the sandbox with it: its
// front sees no answer, gives up at its deadline and closes, which ends the operation.
template <typename Call>
void guarded(const Call& call) noexcept {
  try {
    call();
  } catch (const os::Error&) {
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

Loop::Loop() : epoll_(os::check(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1", "loop")) {}

void Loop::run() {
  for (;;) run_turn();
}

void Loop::run_turn() {
  std::array<epoll_event, 32> events{};
  const int count = os::check(os::retry_eintr([&] {
                                return ::epoll_wait(epoll_.get(), events.data(),
                                                    static_cast<int>(events.size()), wait_ms());
                              }),
                              "epoll_wait", "loop");
  for (int index = 0; index < count; ++index) {
    const auto& event = events[static_cast<std::size_t>(index)];
    const auto found = watches_.find(event.data.u64);
    if (found == watches_.end()) continue;
    const auto callback = found->second;  // keeps it alive where it removes itself
    guarded([&] { (*callback)(event.events); });
  }
  run_due_timers();
  run_posted();
}

void Loop::run_due_timers() {
  if (timers_.empty()) return;
  const auto now = Clock::now();
  std::vector<std::uint64_t> due;
  for (const auto& [token, timer] : timers_)
    if (timer.when <= now) due.push_back(token);
  for (const auto token : due) {
    const auto found = timers_.find(token);
    if (found == timers_.end()) continue;  // an earlier callback reset it
    const auto callback = std::move(found->second.callback);
    timers_.erase(found);
    guarded(*callback);
  }
}

void Loop::run_posted() {
  while (!posted_.empty()) {
    for (const auto& task : std::exchange(posted_, {})) guarded(task);
  }
}

int Loop::wait_ms() const {
  if (timers_.empty()) return -1;
  auto next = Clock::time_point::max();
  for (const auto& [token, timer] : timers_) next = std::min(next, timer.when);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

Watch::Watch(Loop& loop, const os::UniqueFd& fd, std::uint32_t events, Loop::EventCallback callback)
    : loop_(&loop), fd_(fd.get()), token_(++loop.last_token_), events_(events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token_;
  os::check(::epoll_ctl(loop.epoll_.get(), EPOLL_CTL_ADD, fd_, &event), "epoll_ctl add", "loop");
  loop.watches_.emplace(token_, std::make_shared<Loop::EventCallback>(std::move(callback)));
}

Watch::Watch(Watch&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)),
      fd_(other.fd_),
      token_(other.token_),
      events_(other.events_) {}

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this == &other) return *this;
  reset();
  loop_ = std::exchange(other.loop_, nullptr);
  fd_ = other.fd_;
  token_ = other.token_;
  events_ = other.events_;
  return *this;
}

void Watch::reset() noexcept {
  if (loop_ == nullptr) return;
  ::epoll_ctl(loop_->epoll_.get(), EPOLL_CTL_DEL, fd_, nullptr);
  loop_->watches_.erase(token_);
  loop_ = nullptr;
}

void Watch::set_events(std::uint32_t events) {
  if (loop_ == nullptr || events == events_) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token_;
  os::check(::epoll_ctl(loop_->epoll_.get(), EPOLL_CTL_MOD, fd_, &event), "epoll_ctl mod", "loop");
  events_ = events;
}

Timer::Timer(Loop& loop, std::chrono::milliseconds delay, std::function<void()> callback)
    : loop_(&loop), token_(++loop.last_token_) {
  loop.timers_.emplace(token_,
                       Loop::Due{Loop::Clock::now() + std::min(delay, longest_delay),
                                 std::make_shared<std::function<void()>>(std::move(callback))});
}

Timer::Timer(Timer&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), token_(other.token_) {}

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  loop_ = std::exchange(other.loop_, nullptr);
  token_ = other.token_;
  return *this;
}

void Timer::reset() noexcept {
  if (loop_ != nullptr) loop_->timers_.erase(token_);
  loop_ = nullptr;
}

}  // namespace daiv::agent
