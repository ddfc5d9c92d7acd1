#include "agent/ending.hpp"

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

Ending::Ending(Context& context, std::function<void()> on_ended)
    : context_(context), on_ended_(std::move(on_ended)) {}

Ending::~Ending() { context_.reaper.unsubscribe(observer_); }

void Ending::start(std::chrono::milliseconds grace) {
  context_.terminating = true;
  for (const pid_t worker : context_.workers)
    ::kill(worker, SIGKILL);  // no grace: they hold nothing to save
  observer_ = context_.reaper.subscribe([this] { check(); });
  signal_all(SIGTERM);
  if (grace.count() > 0)
    grace_ = Timer(context_.loop, grace, [this] { kill_round(); });
  else
    kill_round();
  check();
}

void Ending::check() {
  if (ended_ || signal_all(0)) return;
  ended_ = true;
  grace_.reset();
  retry_.reset();
  on_ended_();
}

void Ending::kill_round() {
  check();
  if (ended_) return;
  signal_all(SIGKILL);
  retry_ = Timer(context_.loop, kill_interval, [this] { kill_round(); });
}

}  // namespace daiv::agent
