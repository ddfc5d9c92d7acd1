#include "agent/exec_operation.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

constexpr int pipe_bytes = 256 * 1024;
// What a `>(tee file)` still writes after its shell has ended comes within a moment; a longer
// silence is the end, but only if nobody works meanwhile: on a loaded host it takes a while until
// such a process gets a processor at all.
constexpr std::chrono::milliseconds quiet_time{20};
constexpr std::chrono::milliseconds max_drain_time{200};
constexpr std::chrono::milliseconds kill_interval{20};
constexpr std::size_t max_bytes_per_turn = 4U << 20;

os::UniqueFd make_script(const std::string& command) {
  os::UniqueFd file(os::check(::memfd_create("command", MFD_CLOEXEC), "memfd_create", "command"));
  os::write_full(file, command);
  return file;
}

}  // namespace

ExecOperation::ExecOperation(Context& context, os::UniqueFd connection, ExecRequest request,
                             EndCallback on_end)
    : context_(context),
      request_(std::move(request)),
      on_end_(std::move(on_end)),
      channel_(context.loop, std::move(connection),
               {.on_gone = [this] { on_front_gone(); },
                .on_writable =
                    [this] {
                      watch_output();
                      pump();
                    },
                .on_finished = [this] { on_end_(); }}) {
  start();
}

ExecOperation::~ExecOperation() {
  if (observer_ != 0) context_.reaper.unsubscribe(observer_);
  if (leader_ != 0) context_.reaper.forget(leader_);
  if (output_) {
    output_watch_.reset();
    context_.drains.add(std::move(output_));
  }
  if (leaf_) context_.cgroups.give_back(std::move(*leaf_));
}

void ExecOperation::start() {
  const auto shell = context_.shells.find();
  if (!shell) return refuse("no shell in the image");
  try {
    launch_with(*shell);
  } catch (const os::Error& error) {
    refuse(std::string("cannot start the command: ") + error.what());
  }
}

void ExecOperation::launch_with(const Shell& shell) {
  auto [read_end, write_end] = os::make_pipe();
  ::fcntl(read_end.get(), F_SETPIPE_SZ,
          pipe_bytes);  // only speed; refused above fs.pipe-user-pages-soft (pipe(7))
  // Only this end: O_NONBLOCK would surprise the command.
  os::check(::fcntl(read_end.get(), F_SETFL, O_RDONLY | O_NONBLOCK), "fcntl F_SETFL", "pipe");
  // So that the command may open /dev/stdout again.
  os::check(::fchown(write_end.get(), context_.confinement.uid, context_.confinement.gid), "fchown",
            "pipe");
  const auto arguments = plan_arguments(shell, request_.command);
  const os::UniqueFd script =
      request_.command.size() > max_argument_bytes ? make_script(request_.command) : os::UniqueFd();
  leaf_ = context_.cgroups.take();
  if (leaf_) oom_kills_before_ = leaf_->oom_kills();
  if (!leaf_) before_ = take_snapshot(list_processes());
  auto launched = launch({.confinement = context_.confinement,
                          .arguments = arguments,
                          .environment = context_.config.environment,
                          .null = context_.null,
                          .output = write_end,
                          .script = script ? &script : nullptr,
                          .leaf = leaf_ ? &*leaf_ : nullptr});
  leader_ = launched.pid;
  failure_ = std::move(launched.failure);
  output_ = std::move(read_end);
  request_.command = {};
  phase_ = Phase::running;
  context_.reaper.expect(leader_,
                         [this](ExecOutcome outcome, int code) { on_exit(outcome, code); });
  if (request_.timeout.count() > 0)
    timeout_ = Timer(context_.loop, request_.timeout, [this] {
      done_.outcome = ExecOutcome::timed_out;
      begin_kill();
    });
  watch_output();
}

void ExecOperation::refuse(std::string message) {
  phase_ = Phase::answered;
  done_.outcome = ExecOutcome::cannot_start;
  done_.message = std::move(message);
  channel_.finish(AnswerType::exec_done, done_.encode());
}

void ExecOperation::on_exit(ExecOutcome outcome, int code) {
  leader_ = 0;
  if (phase_ != Phase::running) return;
  timeout_.reset();
  done_.outcome = outcome;
  done_.code = code;
  // A shell may see the death of its child and end by itself before it is killed with it.
  if ((outcome != ExecOutcome::exited || code != 0) && leaf_ &&
      leaf_->oom_kills() > oom_kills_before_)
    done_.outcome = ExecOutcome::out_of_memory;
  if (auto failure = read_failure(failure_)) {
    done_.outcome = ExecOutcome::cannot_start;
    done_.message = "cannot start the command: " + *failure;
  }
  phase_ = Phase::draining;
  drain_until_ = Loop::Clock::now() + max_drain_time;
  int waiting = 0;
  if (output_ && ::ioctl(output_.get(), FIONREAD, &waiting) == 0)
    owed_ = static_cast<std::uint64_t>(waiting);
  pump();
}

void ExecOperation::pump() {
  char* const payload = context_.buffer.get() + frame_header_bytes;
  for (std::size_t done = 0; output_ && !channel_.blocked() && done < max_bytes_per_turn;) {
    const auto count = os::retry_eintr([&] { return ::read(output_.get(), payload, chunk_bytes); });
    if (count < 0 && errno == EAGAIN) {
      if (phase_ == Phase::draining)
        retry_ = Timer(context_.loop, quiet_time, [this] { on_quiet(); });
      if (phase_ == Phase::killing) break;
      return;
    }
    if (count <= 0) {
      output_watch_.reset();
      output_.reset();
      break;
    }
    done += static_cast<std::size_t>(count);
    take_output(static_cast<std::size_t>(count));
    if (phase_ == Phase::draining && owed_ == 0 && Loop::Clock::now() >= drain_until_)
      return answer();
  }
  // EPOLLHUP can't be masked: a pipe that may not be read now is not watched.
  if (channel_.blocked()) return output_watch_.reset();
  if (!output_ && phase_ == Phase::draining) answer();
}

void ExecOperation::take_output(std::size_t count) {
  const auto allowed =
      request_.max_output_bytes - std::min(request_.max_output_bytes, done_.output_bytes);
  done_.output_bytes += count;
  owed_ -= std::min<std::uint64_t>(owed_, count);
  const auto sent = static_cast<std::size_t>(std::min<std::uint64_t>(allowed, count));
  if (sent == 0 || front_gone_) return;
  char* const frame = context_.buffer.get();
  const auto header = wire::Writer()
                          .u32(static_cast<std::uint32_t>(sent))
                          .u8(static_cast<std::uint8_t>(AnswerType::output))
                          .take();
  // NOLINTNEXTLINE(bugprone-not-null-terminated-result): a frame has a length
  std::memcpy(frame, header.data(), header.size());
  channel_.send({frame, frame_header_bytes + sent});
}

void ExecOperation::watch_output() {
  if (!output_ || phase_ == Phase::answered) return;
  output_watch_.reset();
  output_watch_ = Watch(context_.loop, output_, EPOLLIN, [this](std::uint32_t) { pump(); });
}

void ExecOperation::on_quiet() {
  if (phase_ != Phase::draining) return;
  int waiting = 0;
  // Written while the timer ran, or still at work: one more look, up to the limit.
  if (output_ && Loop::Clock::now() < drain_until_ &&
      ((::ioctl(output_.get(), FIONREAD, &waiting) == 0 && waiting > 0) || tree_is_busy()))
    return pump();
  if (!channel_.blocked()) answer();
}

void ExecOperation::begin_kill() {
  timeout_.reset();
  phase_ = Phase::killing;
  if (observer_ == 0)
    observer_ = context_.reaper.subscribe([this] {
      if (phase_ == Phase::killing)
        retry_ = Timer(context_.loop, std::chrono::milliseconds{0}, [this] { on_retry(); });
    });
  kill_round();
}

void ExecOperation::kill_round() {
  if (phase_ != Phase::killing) return;
  if (leaf_) {
    leaf_->kill();
  } else {
    for (const pid_t pid : find_started_since(before_, list_processes(), ::getpid()))
      if (!context_.workers.contains(pid)) ::kill(pid, SIGKILL);
  }
  retry_ = Timer(context_.loop, kill_interval, [this] { on_retry(); });
}

void ExecOperation::on_retry() {
  after_kill();
  kill_round();
}

bool ExecOperation::tree_is_busy() {
  const auto pids =
      leaf_ ? leaf_->processes() : find_started_since(before_, list_processes(), ::getpid());
  return std::ranges::any_of(pids, [this](pid_t pid) {
    const auto process = read_process(pid);
    return process && process->busy && !context_.workers.contains(pid);
  });
}

bool ExecOperation::tree_is_gone() {
  if (leader_ != 0) return false;
  if (leaf_) return leaf_->empty();
  return std::ranges::all_of(find_started_since(before_, list_processes(), ::getpid()),
                             [this](pid_t pid) { return context_.workers.contains(pid); });
}

void ExecOperation::after_kill() {
  if (phase_ != Phase::killing || !tree_is_gone()) return;
  context_.reaper
      .reap();  // zombies count against RLIMIT_NPROC, and the next command follows at once
  // Only now is the pipe complete; what is in it belongs to the answer.
  if (!front_gone_) pump();
  if (channel_.blocked()) return;
  answer();
}

void ExecOperation::on_front_gone() {
  if (std::exchange(front_gone_, true)) return;
  if (phase_ == Phase::answered || phase_ == Phase::draining) return on_end_();
  if (phase_ == Phase::running) begin_kill();
}

void ExecOperation::answer() {
  phase_ = Phase::answered;
  retry_.reset();
  output_watch_.reset();
  if (front_gone_) return on_end_();
  channel_.finish(AnswerType::exec_done, done_.encode());
}

}  // namespace daiv::agent
