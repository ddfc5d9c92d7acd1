#pragma once

#include <optional>
#include <string>

#include "agent/channel.hpp"
#include "agent/context.hpp"
#include "agent/launch.hpp"
#include "agent/process_list.hpp"

namespace daiv::agent {

// One command: starts it, forwards its output at the front's pace, and answers when its leader has
// ended. Its background processes live on, except after a timeout or when the front goes: then the
// whole tree is killed.
class ExecOperation final : public Operation {
public:
  ExecOperation(Context& context, os::UniqueFd connection, ExecRequest request, EndCallback on_end);
  ~ExecOperation() override;

private:
  enum class Phase { starting, running, draining, killing, answered };

  void start();
  void launch_with(const Shell& shell);
  void refuse(std::string message);
  void on_exit(ExecOutcome outcome, int code);
  void begin_kill();
  void kill_round();
  void on_retry();
  [[nodiscard]] bool tree_is_busy();
  [[nodiscard]] bool tree_is_gone();
  void after_kill();
  void on_front_gone();

  void pump();
  void take_output(std::size_t count);
  void watch_output();
  void on_quiet();
  void answer();

  Context& context_;
  ExecRequest request_;
  EndCallback on_end_;
  Channel channel_;
  Phase phase_ = Phase::starting;
  ExecDone done_;
  bool front_gone_ = false;

  pid_t leader_ = 0;
  os::UniqueFd failure_;
  std::optional<Leaf> leaf_;
  std::uint64_t oom_kills_before_ = 0;
  Snapshot before_;  // only where there is no leaf

  os::UniqueFd output_;
  Watch output_watch_;
  std::uint64_t owed_ =
      0;  // bytes that were in the pipe when the leader ended: sent, however slow the front reads
  Loop::Clock::time_point drain_until_;
  Timer timeout_;
  Timer retry_;
  std::uint64_t observer_ = 0;
};

}  // namespace daiv::agent
