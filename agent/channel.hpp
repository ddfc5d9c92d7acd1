#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "agent/loop.hpp"
#include "agent/protocol.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent {

// The agent's side of a connection once its request has been read: frames go out, and the front's
// going is noticed. Never blocks and never throws for a front that is gone.
class Channel {
public:
  struct Events {
    std::function<void()>
        on_gone;  // the front closed, or an error: once, never after finish() was flushed
    std::function<void()> on_writable;  // what was pending is sent
    std::function<void()> on_finished;  // all that finish() was given is sent
  };

  Channel(Loop& loop, os::UniqueFd connection, Events events);

  // Sends `frame`, header included, now or when the socket takes it. Call it only while !blocked().
  void send(std::string_view frame);
  // Something is pending: the sender has to wait for on_writable.
  [[nodiscard]] bool blocked() const noexcept { return !pending_.empty(); }
  // Sends the last frame; then on_finished is called from the loop.
  void finish(AnswerType type, std::string_view payload);

private:
  void on_events(std::uint32_t events);
  void flush();
  void gone();

  Loop& loop_;
  os::UniqueFd connection_;
  Events events_;
  std::string pending_;
  bool finishing_ = false;
  bool gone_ = false;
  Watch watch_;
  Timer later_;
};

}  // namespace daiv::agent
