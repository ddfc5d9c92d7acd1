#pragma once

#include <chrono>
#include <functional>

#include "agent/context.hpp"

namespace daiv::agent {

// Ends every process of the sandbox but the agent: SIGTERM, after the grace SIGKILL until none is
// left. From here on the context is terminating: nothing new is started.
class Ending {
public:
  // `on_ended` is called once, by the loop or by start().
  Ending(Context& context, std::function<void()> on_ended);
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending();

  void start(std::chrono::milliseconds grace);
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

private:
  void check();
  void kill_round();

  Context& context_;
  std::function<void()> on_ended_;
  bool ended_ = false;
  Timer grace_;
  Timer retry_;
  std::uint64_t observer_ = 0;
};

}  // namespace daiv::agent
