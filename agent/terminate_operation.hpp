#pragma once

#include "agent/channel.hpp"
#include "agent/context.hpp"

namespace daiv::agent {

// Ends every process of the sandbox but the agent: SIGTERM, after the grace SIGKILL until none is
// left, then `done`. From here on the context is terminating: nothing new is started. A front that
// goes does not cancel it.
class TerminateOperation final : public Operation {
public:
  TerminateOperation(Context& context, os::UniqueFd connection, TerminateRequest request,
                     EndCallback on_end);
  ~TerminateOperation() override;

private:
  void check();
  void kill_round();

  Context& context_;
  EndCallback on_end_;
  Channel channel_;
  bool answered_ = false;
  Timer grace_;
  Timer retry_;
  std::uint64_t observer_ = 0;
};

}  // namespace daiv::agent
