#include "agent/terminate_operation.hpp"

#include <signal.h>

#include <cerrno>
#include <utility>

namespace daiv::agent {
namespace {

constexpr std::chrono::milliseconds kill_interval{20};

// As PID 1 of its namespace the agent reaches all others, and only those, by -1 (kill(2),
// pid_namespaces(7)).
bool signal_all(int signal) { return ::kill(-1, signal) == 0 || errno != ESRCH; }

}  // namespace

TerminateOperation::TerminateOperation(Context& context, os::UniqueFd connection,
                                       TerminateRequest request, EndCallback on_end)
    : context_(context),
      on_end_(std::move(on_end)),
      channel_(context.loop, std::move(connection),
               {.on_gone =
                    [this] {
                      if (answered_) on_end_();
                    },
                .on_writable = [] {},
                .on_finished = [this] { on_end_(); }}) {
  context_.terminating = true;
  for (const pid_t worker : context_.workers)
    ::kill(worker, SIGKILL);  // no grace: they hold nothing to save
  observer_ = context_.reaper.subscribe([this] { check(); });
  signal_all(SIGTERM);
  if (request.grace.count() > 0)
    grace_ = Timer(context_.loop, request.grace, [this] { kill_round(); });
  else
    kill_round();
  check();
}

TerminateOperation::~TerminateOperation() { context_.reaper.unsubscribe(observer_); }

void TerminateOperation::check() {
  if (answered_ || signal_all(0)) return;
  answered_ = true;
  grace_.reset();
  retry_.reset();
  channel_.finish(AnswerType::done, {});
}

void TerminateOperation::kill_round() {
  check();
  if (answered_) return;
  signal_all(SIGKILL);
  retry_ = Timer(context_.loop, kill_interval, [this] { kill_round(); });
}

}  // namespace daiv::agent
