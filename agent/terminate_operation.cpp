#include "agent/terminate_operation.hpp"

#include <utility>

namespace daiv::agent {

TerminateOperation::TerminateOperation(Context& context, os::UniqueFd connection,
                                       TerminateRequest request, EndCallback on_end)
    : on_end_(std::move(on_end)),
      channel_(context.loop, std::move(connection),
               {.on_gone =
                    [this] {
                      if (ending_.has_ended()) on_end_();
                    },
                .on_writable = [] {},
                .on_finished = [this] { on_end_(); }}),
      ending_(context, [this] { channel_.finish(AnswerType::done, {}); }) {
  ending_.start(request.grace);
}

}  // namespace daiv::agent
