#include "agent/fs_pool.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "agent/fs_worker.hpp"
#include "os/error.hpp"
#include "os/socket.hpp"

namespace daiv::agent {
namespace {

// An idle session shall cost little: the first worker stays for a pause between requests, the
// others for a moment.
constexpr std::chrono::milliseconds last_worker_idle{10'000};
constexpr std::chrono::milliseconds spare_worker_idle{1'000};

void send_failed(const os::UniqueFd& connection, std::string_view message) {
  const auto frame = make_frame(static_cast<std::uint8_t>(AnswerType::failed),
                                Failed{std::string(message)}.encode());
  [[maybe_unused]] const auto ignored =
      ::send(connection.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

FsPool::~FsPool() {
  for (auto& worker : workers_) context_.reaper.forget(worker.pid);
}

void FsPool::submit(os::UniqueFd connection, std::uint32_t length) {
  place({.connection = std::move(connection), .length = length});
}

void FsPool::place(Job job) {
  const auto idle = std::ranges::find_if(
      workers_, [](const Worker& worker) { return !worker.busy && !worker.retiring; });
  if (idle != workers_.end()) return give(idle, std::move(job));
  if (workers_.size() < max_workers) {
    try {
      return give(start_worker(), std::move(job));
    } catch (const os::Error&
                 error) {  // the session is at its limit of processes: those that are there must do
      if (workers_.empty()) return send_failed(job.connection, error.what());
    }
  }
  if (waiting_.size() >= max_waiting)
    return send_failed(job.connection, "too many file operations at once");
  waiting_.push_back(std::move(job));
}

FsPool::Position FsPool::start_worker() {
  auto [mine, theirs] = os::make_socket_pair(os::SocketKind::seqpacket);
  os::check(::fcntl(mine.get(), F_SETFL, O_RDWR | O_NONBLOCK), "fcntl F_SETFL", "worker");
  const pid_t pid = os::check(::fork(), "fork", "worker");
  if (pid == 0) run_fs_worker(context_, std::move(theirs));
  const auto worker = workers_.emplace(workers_.end());
  worker->pid = pid;
  worker->control = std::move(mine);
  worker->inbox = std::move(theirs);
  worker->control_watch = Watch(context_.loop, worker->control, EPOLLIN,
                                [this, worker](std::uint32_t) { on_control(worker); });
  context_.workers.insert(pid);
  context_.reaper.keep_running(pid);
  context_.reaper.expect(pid, [this, worker](ExecOutcome, int) { on_exit(worker); });
  return worker;
}

void FsPool::give(Position worker, Job job) {
  worker->idle.reset();
  worker->busy = true;
  worker->answering = false;
  worker->job = std::move(job);
  ++worker->job.tries;
  const std::array fds = {worker->job.connection.get()};
  const FsAssignment assignment{worker->job.length};
  try {
    os::send_message(worker->control, assignment.bytes(), fds);
  } catch (const os::Error&) {  // such as ETOOMANYREFS: on_exit answers
    ::kill(worker->pid, SIGKILL);
    return;
  }
  worker->front_watch = Watch(context_.loop, worker->job.connection, EPOLLRDHUP,
                              [this, worker](std::uint32_t) { on_front_gone(worker); });
}

void FsPool::on_control(Position worker) {
  char message = 0;
  for (;;) {
    const auto count =
        os::retry_eintr([&] { return ::recv(worker->control.get(), &message, 1, MSG_DONTWAIT); });
    if (count <= 0) {
      if (count == 0) worker->control_watch.reset();  // the reaper tells the rest
      return;
    }
    if (message == fs_answering) {
      worker->answering = true;
      worker->front_watch.reset();
      worker->job.connection.reset();  // the worker's copy is the last one
    } else if (message == fs_idle) {
      rest(worker);
    }
  }
}

void FsPool::rest(Position worker) {
  worker->busy = false;
  worker->front_watch.reset();
  worker->job = {};
  if (!waiting_.empty()) return give_waiting();
  worker->idle = Timer(context_.loop, workers_.size() == 1 ? last_worker_idle : spare_worker_idle,
                       [this, worker] { retire(worker); });
}

void FsPool::give_waiting() {
  for (auto worker = workers_.begin(); worker != workers_.end() && !waiting_.empty(); ++worker) {
    if (worker->busy || worker->retiring) continue;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    give(worker, std::move(job));
  }
}

void FsPool::retire(Position worker) {
  worker->retiring = true;
  worker->control_watch.reset();
  worker->control.reset();  // its end of stream
}

void FsPool::on_front_gone(Position worker) {
  on_control(worker);  // it may have been answered already: the front closes as soon as it has read
  if (!worker->busy || worker->answering) return;
  worker->front_watch.reset();
  worker->job.connection.reset();  // nobody waits for it, and nobody else is to do it
  ::kill(worker->pid, SIGKILL);
}

// Whether a worker that has ended left its request as it was: it had not even read the assignment.
bool FsPool::take_back(const Worker& worker) {
  char assignment = 0;
  return os::retry_eintr([&] {
           return ::recv(worker.inbox.get(), &assignment, sizeof assignment, MSG_DONTWAIT);
         }) > 0;
}

void FsPool::on_exit(Position worker) {
  on_control(worker);
  context_.workers.erase(worker->pid);
  Job unanswered = worker->busy ? std::move(worker->job) : Job();
  const bool untouched = take_back(*worker);
  workers_.erase(worker);
  if (unanswered.connection && untouched && unanswered.tries < max_tries && !context_.terminating)
    waiting_.push_front(std::move(unanswered));
  else if (unanswered.connection)
    send_failed(unanswered.connection, "the file operation was interrupted");
  if (waiting_.empty() || context_.terminating) return waiting_.clear();
  Job job = std::move(waiting_.front());
  waiting_.pop_front();
  place(std::move(job));
}

}  // namespace daiv::agent
