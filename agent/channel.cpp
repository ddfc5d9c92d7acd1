#include "agent/channel.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "os/error.hpp"

namespace daiv::agent {

Channel::Channel(Loop& loop, os::UniqueFd connection, Events events)
    : loop_(loop),
      connection_(std::move(connection)),
      events_(std::move(events)),
      watch_(loop, connection_, EPOLLRDHUP,
             [this](std::uint32_t happened) { on_events(happened); }) {}

void Channel::send(std::string_view frame) {
  if (gone_) return;
  if (!pending_.empty()) {
    pending_.append(frame);
    return;
  }
  const auto sent = os::retry_eintr([&] {
    return ::send(connection_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
  if (sent < 0 && errno != EAGAIN) return gone();
  frame.remove_prefix(sent < 0 ? 0 : static_cast<std::size_t>(sent));
  if (frame.empty()) return;
  pending_.assign(frame);
  watch_.set_events(EPOLLRDHUP | EPOLLOUT);
}

void Channel::finish(AnswerType type, std::string_view payload) {
  finishing_ = true;
  send(make_frame(static_cast<std::uint8_t>(type), payload));
  if (pending_.empty() && !gone_)
    later_ = Timer(loop_, std::chrono::milliseconds{0}, events_.on_finished);
}

void Channel::on_events(std::uint32_t happened) {
  if ((happened & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) return gone();
  if ((happened & EPOLLOUT) != 0) flush();
}

void Channel::flush() {
  const std::string frame = std::exchange(pending_, {});
  watch_.set_events(EPOLLRDHUP);
  send(frame);
  if (!pending_.empty() || gone_) return;
  if (finishing_)
    events_.on_finished();
  else
    events_.on_writable();
}

void Channel::gone() {
  if (std::exchange(gone_, true)) return;
  pending_.clear();
  watch_.reset();
  // From the loop, so that nobody is destroyed below send().
  later_ = Timer(loop_, std::chrono::milliseconds{0}, events_.on_gone);
}

}  // namespace daiv::agent
