#include "sessions/native_sessions.hpp"

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "agent/protocol.hpp"
#include "sessions/deadline.hpp"
#include "sessions/environment.hpp"
#include "sessions/exec_command.hpp"
#include "sessions/failures.hpp"
#include "sessions/on_pool.hpp"
#include "sessions/seed_stream.hpp"
#include "sessions/session_lease.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

constexpr AgentLimit connect_limit = std::chrono::seconds(5);
constexpr AgentLimit fs_send_limit = std::chrono::seconds(60);
constexpr AgentLimit fs_answer_limit = std::chrono::seconds(300);

std::uint64_t to_cpu_millis(double cpus) {
  return cpus > 0 ? static_cast<std::uint64_t>(std::max(1.0, std::round(cpus * 1000))) : 0;
}

bool is_missing_layer(const HostError& error) {
  return error.kind() == runtime::Failure::not_found;
}

}  // namespace

NativeSessions::NativeSessions(SessionSettings settings, SandboxHost& host, ImageSource images,
                               asio::any_io_executor executor, asio::thread_pool& pool,
                               asio::thread_pool& pull_pool, Clock clock)
    : settings_(std::move(settings)),
      images_(std::move(images)),
      pool_(pool),
      pull_pool_(pull_pool),
      store_(settings_.store, host, executor, pool, std::move(clock)),
      shared_(settings_.shared ? std::make_unique<SharedSessions>(*settings_.shared, executor)
                               : nullptr),
      background_(executor) {}

NativeSessions::~NativeSessions() = default;

asio::awaitable<images::Image> NativeSessions::find_image(std::string reference) {
  auto work = [this, reference = std::move(reference)] { return images_(reference); };
  images::Image image = co_await on_pool(pull_pool_, std::move(work));
  co_return image;
}

asio::awaitable<std::string> NativeSessions::create(CreateOptions options) {
  const auto fault = find_environment_fault(options.environment);
  if (fault) throw SessionError(SessionFailure::bad_request, *fault);
  if (options.egress && !offers_egress())
    throw SessionError(
        SessionFailure::bad_request,
        "egress requires the egress proxy, which is not configured on this deployment");
  // A coroutine of its own, since it changes how cancellation reaches it.
  auto executor = co_await asio::this_coro::executor;
  std::string id =
      co_await asio::co_spawn(executor, create_or_undo(std::move(options)), asio::use_awaitable);
  co_return id;
}

// A client that went away meanwhile would leave a session whose id nobody knows: creation goes on
// to its end and is then undone.
asio::awaitable<std::string> NativeSessions::create_or_undo(CreateOptions options) {
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  co_await asio::this_coro::throw_if_cancelled(false);
  std::string id = co_await translated(create_from_image(std::move(options)));
  const auto state = co_await asio::this_coro::cancellation_state;
  const auto session = store_.find(id);
  if (state.cancelled() == asio::cancellation_type::none) {
    if (session) note_use(*session);
    co_return id;
  }
  if (session) co_await store_.remove(session);
  throw boost::system::system_error(asio::error::operation_aborted);
}

asio::awaitable<std::string> NativeSessions::create_from_image(CreateOptions options) {
  for (int attempt = 0;; ++attempt) {
    // Its pin keeps the layers from being pruned until the store counts them as in use.
    images::Image image = co_await find_image(options.base_image);
    SessionRecord record;
    record.image_id = std::move(image.id);
    record.image_reference = std::move(image.reference);
    record.layers = std::move(image.layers);
    record.environment = plan_environment(image.config.environment, options.environment);
    record.limits.memory_bytes = options.memory_bytes;
    record.limits.cpu_millis = to_cpu_millis(options.cpus);
    record.limits.pids = settings_.pids_limit;
    record.run_uid = settings_.run_uid;
    record.run_gid = settings_.run_gid;
    try {
      std::string id = co_await store_.create(std::move(record), options.egress);
      co_return id;
    } catch (const HostError& error) {
      // Pruned between the two steps: fetched again, once.
      if (attempt > 0 || !is_missing_layer(error)) throw;
    }
  }
}

asio::awaitable<std::shared_ptr<SessionLease>> NativeSessions::enter(std::string id) {
  std::shared_ptr<Session> session = store_.find(id);
  if (!session)
    throw SessionError(SessionFailure::not_found, "Session not found or already closed");
  const auto end = std::chrono::steady_clock::now() + settings_.lock_wait;
  auto hold = co_await session->lock.acquire(settings_.lock_wait);
  if (!hold) throw SessionError(SessionFailure::busy, "Session is busy");
  auto lease =
      std::make_shared<SessionLease>(store_, shared_.get(), std::move(session), std::move(*hold));
  // It may have been removed while this operation waited.
  if (lease->session()->presence == Session::Presence::removed) {
    throw SessionError(SessionFailure::not_found, "Session not found or already closed");
  }
  if (!shared_) co_return lease;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(
      std::chrono::steady_clock::duration::zero(), end - std::chrono::steady_clock::now()));
  std::optional<SharedSessions::Turn> turn =
      co_await shared_->take_turn(lease->session()->record.id, left);
  if (!turn) throw SessionError(SessionFailure::busy, "Session is busy");
  lease->hold(std::move(*turn));
  co_return lease;
}

void NativeSessions::note_use(Session& session) {
  session.record.last_used = store_.now();
  if (shared_) shared_->note_use(session.record.id, session.record.last_used);
}

asio::awaitable<bool> NativeSessions::touch(std::string id) {
  const auto session = store_.find(id);
  if (!session) co_return false;
  if (session->phase == Phase::running) {  // nothing to change, so nothing to wait for
    note_use(*session);
    co_return true;
  }
  std::shared_ptr<SessionLease> lease;
  try {
    lease = co_await enter(std::move(id));
  } catch (const SessionError& error) {
    if (error.failure() != SessionFailure::not_found) throw;
    co_return false;
  }
  co_await translated(store_.start(lease->session()));
  co_return true;
}

asio::awaitable<AgentConnection> NativeSessions::open_agent(std::shared_ptr<Session> session) {
  co_await store_.start(session);
  const std::string path = store_.agent_socket(session->record.id);
  try {
    AgentConnection connection = co_await AgentConnection::open(path, connect_limit);
    co_return connection;
  } catch (const AgentError& error) {
    if (error.fault() != AgentFault::gone) throw;
  }
  // It ended and its pidfd has not told yet.
  store_.mark_dead(*session);
  co_await store_.start(session);
  AgentConnection connection = co_await AgentConnection::open(path, connect_limit);
  co_return connection;
}

asio::awaitable<std::vector<CommandResult>> NativeSessions::run(std::string id,
                                                                RunOptions options) {
  const auto lease = co_await enter(std::move(id));
  std::vector<CommandResult> results =
      co_await translated(run_commands(lease->session(), std::move(options)));
  co_return results;
}

asio::awaitable<std::vector<CommandResult>> NativeSessions::run_commands(
    std::shared_ptr<Session> session, RunOptions options) {
  co_await store_.start(session);
  std::vector<CommandResult> results;
  for (auto& command : options.commands) {
    ExecPlan plan;
    plan.command = std::move(command);
    plan.timeout = options.timeout.value_or(settings_.command_timeout);
    plan.memory_bytes = session->record.limits.memory_bytes;
    plan.max_output_bytes = settings_.max_output_bytes;
    plan.spool_directory = settings_.spool_dir;
    AgentConnection connection = co_await open_agent(session);
    ExecOutcome outcome = co_await exec_command(std::move(connection), std::move(plan), pool_);
    const bool failed = outcome.result.exit_code != 0;
    results.push_back(std::move(outcome.result));
    if (outcome.rest == Rest::skip || (failed && options.fail_fast)) break;
  }
  co_return results;
}

asio::awaitable<std::string> NativeSessions::fs(std::string id, std::string request) {
  const auto lease = co_await enter(std::move(id));
  std::string answer = co_await translated(fs_exchange(lease->session(), std::move(request)));
  co_return answer;
}

asio::awaitable<std::string> NativeSessions::fs_exchange(std::shared_ptr<Session> session,
                                                         std::string request) {
  AgentConnection connection = co_await open_agent(std::move(session));
  co_await connection.send(static_cast<std::uint8_t>(agent::RequestType::fs), std::move(request),
                           fs_send_limit);
  AgentFrame answer = co_await connection.receive(fs_answer_limit);
  if (answer.type == static_cast<std::uint8_t>(agent::AnswerType::failed)) {
    throw AgentError(AgentFault::refused, "agent: the file operation could not be carried out");
  }
  if (answer.type != static_cast<std::uint8_t>(agent::AnswerType::fs)) {
    throw AgentError(AgentFault::malformed, "agent: unexpected answer to a file operation");
  }
  co_return std::move(answer.payload);
}

asio::awaitable<void> NativeSessions::close(std::string id, CloseMode mode) {
  std::shared_ptr<SessionLease> lease;
  try {
    lease = co_await enter(std::move(id));
  } catch (const SessionError& error) {
    if (error.failure() != SessionFailure::not_found) throw;
    co_return;
  }
  switch (mode) {
    case CloseMode::keep_warm:
      co_await translated(store_.stop(lease->session()));
      break;
    case CloseMode::remove:
      co_await translated(store_.remove(lease->session()));
      break;
  }
}

bool NativeSessions::offers_egress() const { return store_.egress().gate != nullptr; }

asio::awaitable<EgressUpdate> NativeSessions::update_egress(std::string id, EgressPolicy policy) {
  const std::shared_ptr<Session> session = store_.find(id);
  if (!session) throw SessionError(SessionFailure::not_found, "Session not found");
  note_use(*session);
  EgressUpdate update = co_await translated(store_.update_egress(session, std::move(policy)));
  co_return update;
}

bool NativeSessions::exists(const std::string& id) const { return store_.find(id) != nullptr; }

SessionService::Counts NativeSessions::counts() const {
  Counts counts;
  for (const auto& session : store_.all())
    ++(session->phase == Phase::running ? counts.running : counts.stopped);
  return counts;
}

std::vector<SessionRecord> NativeSessions::list() const {
  std::vector<SessionRecord> records;
  for (const auto& session : store_.all()) records.push_back(session->record);
  std::ranges::sort(records, {}, &SessionRecord::created);
  return records;
}

}  // namespace daiv::sessions
