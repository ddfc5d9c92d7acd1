#include "agent/seed_operation.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "agent/seed_child.hpp"
#include "os/error.hpp"

namespace daiv::agent {
namespace {

// The child that removes what a killed one left; nobody waits for it but the reaper.
void start_cleaning(Context& context) {
  const pid_t pid = ::fork();
  if (pid == 0) run_seed_cleaning(context);
  if (pid < 0) return;  // the next seed cleans first
  context.workers.insert(pid);
  context.reaper.keep_running(pid);
  context.reaper.expect(pid, [&context, pid](ExecOutcome, int) { context.workers.erase(pid); });
}

}  // namespace

SeedOperation::SeedOperation(Context& context, os::UniqueFd connection, std::uint32_t length,
                             EndCallback on_end)
    : context_(context),
      connection_(std::move(connection)),
      length_(length),
      on_end_(std::move(on_end)) {
  // Shared with the child, which blocks; the agent itself only sends a few bytes with MSG_DONTWAIT.
  os::check(::fcntl(connection_.get(), F_SETFL, O_RDWR), "fcntl F_SETFL", "connection");
  if (context_.seeding)
    observer_ = context_.reaper.subscribe([this] { start_if_free(); });
  else
    start();
}

void SeedOperation::start_if_free() {
  if (context_.seeding) return;
  context_.reaper.unsubscribe(std::exchange(observer_, 0));
  if (context_.terminating) {
    fail("the session is being ended");
    return on_end_();
  }
  try {
    start();
  } catch (const os::Error& error) {
    fail(error.what());
    on_end_();
  }
}

void SeedOperation::start() {
  child_ = os::check(::fork(), "fork", "seed");
  if (child_ == 0) run_seed_child(context_, std::move(connection_), length_);
  context_.seeding = true;
  context_.workers.insert(child_);
  context_.reaper.keep_running(child_);
  context_.reaper.expect(child_, [this](ExecOutcome outcome, int code) { on_exit(outcome, code); });
}

void SeedOperation::fail(std::string_view message) {
  const auto frame = make_frame(static_cast<std::uint8_t>(AnswerType::failed),
                                Failed{std::string(message)}.encode());
  [[maybe_unused]] const auto ignored =
      ::send(connection_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

SeedOperation::~SeedOperation() {
  if (observer_ != 0) context_.reaper.unsubscribe(observer_);
  if (child_ == 0) return;
  context_.reaper.forget(child_);
  ::kill(child_, SIGKILL);
}

void SeedOperation::on_exit(ExecOutcome outcome, int code) {
  context_.workers.erase(child_);
  context_.seeding = false;
  child_ = 0;
  if (outcome != ExecOutcome::exited || code != 0) {
    fail("the seed was interrupted");
    if (!context_.terminating) start_cleaning(context_);
  }
  on_end_();
}

void clean_stale_seeds(const Context& context) {
  if (!has_stale_staging()) return;
  const pid_t pid = os::check(::fork(), "fork", "seed cleaning");
  if (pid == 0) run_seed_cleaning(context);
  // Where it fails the next seed cleans first.
  os::check(os::retry_eintr([&] { return ::waitpid(pid, nullptr, 0); }), "waitpid",
            "seed cleaning");
}

}  // namespace daiv::agent
