#pragma once

#include "agent/channel.hpp"
#include "agent/context.hpp"
#include "agent/ending.hpp"

namespace daiv::agent {

// Ends every process of the sandbox but the agent, then answers `done`. A front that goes does not
// cancel it.
class TerminateOperation final : public Operation {
public:
  TerminateOperation(Context& context, os::UniqueFd connection, TerminateRequest request,
                     EndCallback on_end);

private:
  EndCallback on_end_;
  Channel channel_;
  Ending ending_;
};

}  // namespace daiv::agent
