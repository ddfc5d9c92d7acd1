#pragma once

#include <list>

#include "agent/loop.hpp"
#include "os/unique_fd.hpp"

namespace daiv::agent {

// Reads to nowhere what background processes write to the pipes of commands that are over, so that
// they neither block nor get SIGPIPE. A busy writer is held to one pipe's fill per tick, which
// bounds the agent's processor time.
class Drains {
public:
  static constexpr std::size_t max_pipes = 1024;

  explicit Drains(Loop& loop) : loop_(loop) {}

  // Takes a non-blocking read end until the last writer closes it. Above max_pipes the oldest is
  // given up.
  void add(os::UniqueFd pipe);
  [[nodiscard]] std::size_t size() const noexcept { return pipes_.size(); }

private:
  struct Pipe {
    os::UniqueFd fd;
    Watch watch;
  };
  using Position = std::list<Pipe>::iterator;

  void watch(Position pipe);
  void on_tick();

  Loop& loop_;
  std::list<Pipe> pipes_;
  std::list<Pipe> ready_;  // have something to read; unwatched until the tick
  Timer tick_;
};

}  // namespace daiv::agent
