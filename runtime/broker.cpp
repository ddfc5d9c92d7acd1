#include "runtime/broker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"
#include "os/socket.hpp"

namespace daiv::runtime {
namespace {

constexpr std::size_t max_running = 1024;
constexpr std::size_t max_idle_workers = 4;
constexpr std::size_t number_bytes = 4;
constexpr int housekeeping_niceness = 10;
// On a host that is never idle, the disk must come back all the same.
constexpr std::chrono::seconds housekeeping_patience{1};
constexpr std::chrono::seconds housekeeping_pause{30};  // after one that failed

std::string session_of(const Request& request) {
  if (const auto* body = std::get_if<CreateSandbox>(&request)) return body->session;
  if (const auto* body = std::get_if<KillSandbox>(&request)) return body->session;
  if (const auto* body = std::get_if<RemoveSandbox>(&request)) return body->session;
  if (const auto* body = std::get_if<AdoptSandbox>(&request)) return body->session;
  return {};
}

// What makes trash or pending layers.
bool leaves_work(const Request& request) {
  return std::holds_alternative<RemoveSandbox>(request) ||
         std::holds_alternative<RemoveLayers>(request) ||
         std::holds_alternative<UnpackLayer>(request);
}

void log(std::string_view line) { fmt::print(stderr, "level=warning {}\n", line); }

}  // namespace

Broker::Broker(os::UniqueFd front, Operations& operations, os::Watchdog watchdog)
    : front_(std::move(front)),
      epoll_(os::check(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1", "broker")),
      operations_(operations),
      watchdog_(watchdog) {
  // Agents outlive the process that cloned them and become ours to reap
  // (PR_SET_CHILD_SUBREAPER(2const)).
  os::check(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl", "PR_SET_CHILD_SUBREAPER");
  const int flags = os::check(::fcntl(front_.get(), F_GETFL), "fcntl", "front");
  os::check(::fcntl(front_.get(), F_SETFL, flags | O_NONBLOCK), "fcntl", "front");
  watch(front_, EPOLLIN);
}

void Broker::watch(const os::UniqueFd& fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0) return;
  if (errno != EEXIST) os::throw_errno("epoll_ctl", "add");
  os::check(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd.get(), &event), "epoll_ctl", "modify");
}

// Closing is not enough: a copy of the descriptor in another process keeps the registration alive,
// and the loop awake (epoll(7), Questions and answers 6). The front has one of every agent's pidfd.
void Broker::unwatch(const os::UniqueFd& fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
}

void Broker::run() {
  while (front_open_ || !running_.empty()) {
    start_housekeeping();
    const Ready ready = wait();
    // Before any answer goes on: a removal's says that nothing is left, and the agent that its
    // operation saw end is our child to reap.
    const std::vector<os::Reaped> ended = reap();
    for (const pid_t pid : ready.operations) {
      receive_reply(running_.at(pid));
      const Running& operation = running_.at(pid);
      if (operation.answered && operation.stay == Stay::waits_for_more) rest(pid);
    }
    for (const os::Reaped& child : ended) finish(child.pid, child.status);
    forget_agents(ready.agents);
    if (!front_open_) continue;
    if ((ready.front & EPOLLOUT) != 0) flush_outgoing();
    if ((ready.front & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive_requests();
  }
}

// For how long the loop may wait.
std::chrono::milliseconds Broker::next_duty() {
  const auto watched = watchdog_.feed();
  return std::min(watched, housekeeping_delay().value_or(watched));
}

Broker::Ready Broker::wait() {
  std::array<epoll_event, 64> events{};
  const int count = os::check(os::retry_eintr([&] {
                                return ::epoll_wait(epoll_.get(), events.data(), events.size(),
                                                    static_cast<int>(next_duty().count()));
                              }),
                              "epoll_wait", "broker");
  Ready ready;
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(count))) {
    if (front_open_ && event.data.fd == front_.get()) ready.front = event.events;
    for (const auto& [pid, operation] : running_)
      if (operation.process.channel.get() == event.data.fd) ready.operations.push_back(pid);
    if (agents_.contains(event.data.fd)) ready.agents.push_back(event.data.fd);
  }
  return ready;
}

void Broker::receive_requests() {
  try {
    while (auto message = os::receive_message(front_, max_broker_message_bytes))
      accept_request(message->data, std::move(message->fds));
    front_open_ = false;
  } catch (const os::Error& error) {
    if (error.error_number() == EAGAIN) return;
    if (error.error_number() == EMSGSIZE) return log("event=request_too_long");
    log(fmt::format("event=front_lost error=\"{}\"", error.what()));
    front_open_ = false;
  }
  // What waits was asked for by nobody any more; what runs ends by itself.
  for (auto& [session, queue] : waiting_) queue.clear();
  for (const auto& [pid, operation] : running_)
    if (operation.kind == Kind::housekeeping) os::send_signal(operation.process.pidfd, SIGKILL);
  while (!idle_.empty()) {
    let_go(std::move(idle_.back()));
    idle_.pop_back();
  }
  unwatch(front_);
  outgoing_.clear();
}

void Broker::accept_request(std::string_view bytes, std::vector<os::UniqueFd> fds) {
  Waiting request;
  try {
    request = {decode_request(bytes), std::string(bytes), std::move(fds)};
  } catch (const wire::DecodeError& error) {
    log(fmt::format("event=bad_request error=\"{}\"", error.what()));
    if (bytes.size() < number_bytes) return;
    return send_failure(wire::Reader(bytes).u32(), Failure::invalid,
                        fmt::format("malformed request: {}", error.what()));
  }
  if (running_.size() >= max_running)
    return send_failure(request.message.number, Failure::internal, "too many operations at once");
  const std::string session = session_of(request.message.body);
  const auto queue = waiting_.find(session);
  if (!session.empty() && queue != waiting_.end()) {
    queue->second.push_back(std::move(request));
    return;
  }
  start_request(std::move(request));
}

Broker::Kind Broker::kind_of(const Request& request) {
  if (std::holds_alternative<CreateSandbox>(request)) return Kind::creation;
  if (std::holds_alternative<OpenUpstreamSockets>(request)) return Kind::lending;
  return Kind::request;
}

void Broker::start_request(Waiting waiting) {
  const Request& request = waiting.message.body;
  const std::uint32_t number = waiting.message.number;
  const Kind kind = kind_of(request);
  try {
    const pid_t pid =
        suits_worker(request)
            ? start_on_worker(kind, waiting)
            : start(kind, number, session_of(request), {}, [&](const os::UniqueFd& reply) {
                send_outcome(reply, number, operations_.perform(request, std::move(waiting.fds)));
              });
    running_.at(pid).leaves_work = leaves_work(request);
  } catch (const os::Error& error) {
    send_failure(number, Failure::internal, error.what());
    start_next(session_of(request));
  }
}

pid_t Broker::start_on_worker(Kind kind, Waiting& waiting) {
  const std::string session = session_of(waiting.message.body);
  if (!session.empty()) waiting_.try_emplace(session);
  for (;;) {
    const bool is_new = idle_.empty();
    if (is_new)
      idle_.push_back(fork_process([&](const os::UniqueFd& channel) {
        waiting.fds.clear();  // come again with the request, and must not outlive it here
        work(channel, operations_);
      }));
    Process worker = std::move(idle_.back());
    idle_.pop_back();
    try {
      os::send_message(worker.channel, waiting.bytes, numbers_of(waiting.fds));
    } catch (const os::Error&) {  // it has died meanwhile: another one
      let_go(std::move(worker));
      if (is_new) throw;
      continue;
    }
    const pid_t pid = worker.pid;
    running_[pid] = {kind,  waiting.message.number, session, std::move(worker), {},
                     false, Stay::waits_for_more,   false};
    return pid;
  }
}

// After a good answer.
void Broker::rest(pid_t worker) {
  Running operation = std::move(running_.extract(worker).mapped());
  if (operation.leaves_work) note_work();
  if (idle_.size() < max_idle_workers && front_open_) {
    idle_.push_back(std::move(operation.process));
  } else {
    let_go(std::move(operation.process));
  }
  start_next(operation.session);
}

// It ends when its channel is closed, and is reaped as a stranger.
void Broker::let_go(Process process) {
  unwatch(process.channel);
  unwatch(process.pidfd);
}

// A child that has ended without an operation: an idle worker, or an agent.
void Broker::forget_worker(pid_t pid) {
  const auto worker = std::ranges::find(idle_, pid, &Process::pid);
  if (worker == idle_.end()) return;
  let_go(std::move(*worker));
  idle_.erase(worker);
}

template <typename Work>
pid_t Broker::start(Kind kind, std::uint32_t number, const std::string& session, std::string answer,
                    Work&& work) {
  if (!session.empty()) waiting_.try_emplace(session);
  Process process = fork_process(std::forward<Work>(work));
  const pid_t pid = process.pid;
  running_[pid] = {kind,  number,     session, std::move(process), std::move(answer),
                   false, Stay::ends, false};
  return pid;
}

template <typename Work>
Broker::Process Broker::fork_process(Work&& work) {
  auto [ours, theirs] = os::make_socket_pair(os::SocketKind::seqpacket);
  os::Child child = os::clone_process(0);
  if (!child) {
    int status = 0;
    try {
      ours.reset();
      close_inherited();
      work(theirs);
    } catch (const std::exception& error) {
      log(fmt::format("event=operation_failed error=\"{}\"", error.what()));
      status = 1;
    }
    ::_exit(status);
  }
  const pid_t pid = child.pid();
  Process process{pid, std::move(ours), child.release()};
  watch(process.channel, EPOLLIN);
  watch(process.pidfd, EPOLLIN);
  return process;
}

// Descriptors that belong to the loop: an operation that hangs must not keep the front's socket
// open.
void Broker::close_inherited() {
  front_.reset();
  epoll_.reset();
  running_.clear();
  idle_.clear();
  waiting_.clear();
  agents_.clear();
  outgoing_.clear();
}

void Broker::receive_reply(Running& operation) {
  if (operation.answered || operation.kind == Kind::housekeeping) return;
  const os::UniqueFd& channel = operation.process.channel;
  try {
    auto message = os::receive_message(channel, max_broker_message_bytes);
    if (!message || stay_after(message->data) == Stay::ends) operation.stay = Stay::ends;
    // Nothing comes then but the end, which the pidfd tells: no more watching.
    if (operation.stay == Stay::ends) unwatch(channel);
    if (!message || operation.kind == Kind::clean_up) return;
    operation.answered = true;
    if (operation.kind != Kind::lending &&
        !message->fds.empty()) {  // the first is an agent's pidfd (Created)
      os::UniqueFd copy = os::duplicate(message->fds.front());
      watch(copy, EPOLLIN);
      const int number = copy.get();
      agents_.insert_or_assign(number, std::move(copy));
    }
    send(std::move(message->data), std::move(message->fds));
  } catch (const std::exception& error) {
    log(fmt::format("event=bad_reply error=\"{}\"", error.what()));
    operation.stay = Stay::ends;
    unwatch(channel);
  }
}

std::vector<os::Reaped> Broker::reap() {
  std::vector<os::Reaped> ended;
  while (const auto child = os::reap_any()) ended.push_back(*child);
  return ended;
}

void Broker::forget_agents(std::span<const int> ended) {
  for (const int number : ended) {
    const auto agent = agents_.extract(number);
    unwatch(agent.mapped());
  }
}

void Broker::finish(pid_t pid, os::ExitStatus status) {
  const auto place = running_.find(pid);
  if (place == running_.end()) return forget_worker(pid);
  receive_reply(place->second);  // it may have spoken just before its end
  Running operation = std::move(running_.extract(place).mapped());
  let_go(std::move(operation.process));  // before another process is forked that would inherit it
  if (operation.leaves_work) note_work();
  switch (operation.kind) {
    case Kind::housekeeping:
      keeping_house_ = false;
      if (!status.success()) work_since_ = Clock::now() + housekeeping_pause;
      return;
    case Kind::clean_up:
      send(std::move(operation.answer), {});
      note_work();
      break;
    case Kind::request:
    case Kind::lending:
    case Kind::creation:
      if (operation.answered) break;
      Failed failed{Failure::internal,
                    fmt::format("the operation ended with {}", status.describe())};
      if (operation.kind != Kind::creation) {
        send_failure(operation.number, failed.kind, std::move(failed.message));
        break;
      }
      // The answer goes out when nothing of it is left.
      start(Kind::clean_up, operation.number, operation.session,
            encode(AnswerMessage{operation.number, std::move(failed)}),
            [&](const os::UniqueFd&) { operations_.clean_up(operation.session); });
      return;
  }
  start_next(operation.session);
}

void Broker::start_next(const std::string& session) {
  const auto queue = waiting_.find(session);
  if (queue == waiting_.end()) return;
  if (queue->second.empty()) {
    waiting_.erase(queue);
    return;
  }
  Waiting next = std::move(queue->second.front());
  queue->second.pop_front();
  start_request(std::move(next));
}

void Broker::note_work() {
  if (!work_since_) work_since_ = Clock::now();
}

// What is asked for comes first, for a while.
std::optional<std::chrono::milliseconds> Broker::housekeeping_delay() const {
  if (!work_since_ || keeping_house_ || !front_open_) return std::nullopt;
  const auto begin = running_.empty() ? *work_since_ : *work_since_ + housekeeping_patience;
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(begin - Clock::now()),
                  std::chrono::milliseconds(0));
}

// Beside operations only the disk is given back, and not as the last of all; a sync can wait.
void Broker::start_housekeeping() {
  const auto delay = housekeeping_delay();
  if (!delay || delay->count() > 0) return;
  const bool is_idle = running_.empty();
  work_since_.reset();
  try {
    const pid_t pid =
        start(Kind::housekeeping, 0, {}, {}, [&, broker = ::getpid()](const os::UniqueFd&) {
          // It may take long, and the next broker begins with it anew: it ends with this one
          // (PR_SET_PDEATHSIG(2const); the parent may have gone before that is set).
          os::check(::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "prctl", "PR_SET_PDEATHSIG");
          if (::getppid() != broker) return;
          if (is_idle) ::setpriority(PRIO_PROCESS, 0, housekeeping_niceness);
          operations_.delete_trash();
          if (is_idle) operations_.flush_layers();
        });
    running_.at(pid).leaves_work = !is_idle;
    keeping_house_ = true;
  } catch (const os::Error& error) {  // no process to be had
    log(fmt::format("event=housekeeping_failed error=\"{}\"", error.what()));
    work_since_ = Clock::now() + housekeeping_pause;
  }
}

void Broker::send_failure(std::uint32_t number, Failure kind, std::string text) {
  send(encode(AnswerMessage{number, Failed{kind, std::move(text)}}), {});
}

void Broker::send(std::string bytes, std::vector<os::UniqueFd> fds) {
  if (!front_open_) return;
  outgoing_.push_back({std::move(bytes), std::move(fds)});
  flush_outgoing();
}

void Broker::flush_outgoing() {
  while (!outgoing_.empty()) {
    try {
      os::send_message(front_, outgoing_.front().bytes, numbers_of(outgoing_.front().fds));
    } catch (const os::Error& error) {
      if (error.error_number() != EAGAIN) outgoing_.clear();  // gone: the next read says so
      break;
    }
    outgoing_.pop_front();
  }
  watch(front_, outgoing_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

}  // namespace daiv::runtime
