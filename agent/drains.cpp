#include "agent/drains.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "os/error.hpp"

namespace daiv::agent {
namespace {

constexpr std::chrono::milliseconds tick{10};
constexpr std::size_t max_bytes_per_tick = 1U << 20;

// False at the end of the pipe.
bool discard(const os::UniqueFd& pipe) {
  std::array<char, 16384>
      buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): only ever written
  for (std::size_t done = 0; done < max_bytes_per_tick;) {
    const auto count =
        os::retry_eintr([&] { return ::read(pipe.get(), buffer.data(), buffer.size()); });
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

void Drains::add(os::UniqueFd pipe) {
  pipes_.push_back({std::move(pipe), {}});
  watch(std::prev(pipes_.end()));
  if (pipes_.size() + ready_.size() > max_pipes) pipes_.pop_front();
}

void Drains::watch(Position pipe) {
  pipe->watch = Watch(loop_, pipe->fd, EPOLLIN, [this, pipe](std::uint32_t) {
    pipe->watch.reset();  // EPOLLHUP can't be masked (epoll_ctl(2)): not watched until it was read
    if (ready_.empty()) tick_ = Timer(loop_, tick, [this] { on_tick(); });
    ready_.splice(ready_.end(), pipes_, pipe);
  });
}

void Drains::on_tick() {
  while (!ready_.empty()) {
    const auto pipe = ready_.begin();
    if (!discard(pipe->fd)) {
      ready_.erase(pipe);
      continue;
    }
    pipes_.splice(pipes_.end(), ready_, pipe);
    watch(pipe);
  }
}

}  // namespace daiv::agent
