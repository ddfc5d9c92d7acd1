#include "sessions/session_store.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "agent/protocol.hpp"
#include "os/crash_point.hpp"
#include "sessions/agent_termination.hpp"
#include "sessions/deadline.hpp"
#include "sessions/egress_environment.hpp"
#include "sessions/on_pool.hpp"
#include "sessions/session_service.hpp"

namespace asio = boost::asio;

namespace daiv::sessions {
namespace {

// Twelve digits of the id, as container engines do.
std::string plan_hostname(const std::string& id) {
  std::string digits;
  std::ranges::copy_if(id, std::back_inserter(digits), [](char letter) { return letter != '-'; });
  return digits.substr(0, 12);
}

// The broker's process that removes may be ended like any other: what it left half done, the next
// one ends. Throws what the second one throws.
void remove_for_good(SandboxHost& host, const std::string& session) {
  try {
    host.remove(session);
  } catch (const HostError& error) {
    spdlog::warn("session={} event=removal_repeated error=\"{}\"", session, error.what());
    host.remove(session);
  }
}

}  // namespace

// Keeps a session's layers from being pruned while the session is being made.
class SessionStore::LayerUse {
public:
  LayerUse(SessionStore& store, std::vector<std::string> layers)
      : store_(store), layers_(std::move(layers)) {
    store_.use_layers(layers_);
  }
  LayerUse(const LayerUse&) = delete;
  LayerUse& operator=(const LayerUse&) = delete;
  ~LayerUse() { store_.release_layers(layers_); }

private:
  SessionStore& store_;
  std::vector<std::string> layers_;
};

SessionStore::SessionStore(StoreSettings settings, SandboxHost& host,
                           asio::any_io_executor executor, asio::thread_pool& pool, Clock clock)
    : settings_(std::move(settings)),
      host_(host),
      executor_(executor),
      pool_(pool),
      clock_(std::move(clock)),
      database_(settings_.database_path),
      egress_files_(settings_.egress.directory),
      ranges_(settings_.uid_start, settings_.uid_count),
      watches_(executor) {}

std::shared_ptr<Session> SessionStore::find(const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Session>> SessionStore::all() const {
  std::vector<std::shared_ptr<Session>> sessions;
  sessions.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) sessions.push_back(session);
  return sessions;
}

std::string SessionStore::agent_socket(const std::string& id) const {
  return fmt::format("{}/sessions/{}/agent.sock", settings_.runtime_dir, id);
}

SandboxSpec SessionStore::plan_sandbox(const SessionRecord& record) const {
  const bool no_new_privs = settings_.no_new_privs == StoreSettings::NoNewPrivs::on;
  agent::Config config;
  config.run_uid = record.run_uid;
  config.run_gid = record.run_gid;
  config.privilege_gain =
      no_new_privs ? agent::PrivilegeGain::denied : agent::PrivilegeGain::setuid_only;
  config.max_processes = settings_.max_processes;
  config.environment = record.environment;
  config.prune_dirs = settings_.prune_dirs;
  SandboxSpec spec;
  if (record.egress_port != 0) {
    require_gate(record);
    spec.request.egress = settings_.egress.plan_link(record.uid_base);
    spec.request.egress->port = record.egress_port;
    config.environment = with_egress(std::move(config.environment), *spec.request.egress);
    config.trust = settings_.egress.gate->trust();
  }
  spec.agent_config = config.encode();
  spec.request.session = record.id;
  spec.request.uid_base = record.uid_base;
  spec.request.layers = record.layers;
  spec.request.run_uid = record.run_uid;
  spec.request.run_gid = record.run_gid;
  spec.request.hostname = plan_hostname(record.id);
  spec.request.limits = record.limits;
  spec.request.no_new_privs = no_new_privs;
  return spec;
}

asio::awaitable<std::string> SessionStore::create(SessionRecord record,
                                                  std::optional<EgressPolicy> egress) {
  std::string id = co_await uninterrupted(create_sandbox(std::move(record), std::move(egress)));
  co_return id;
}

asio::awaitable<void> SessionStore::start(std::shared_ptr<Session> session) {
  if (session->phase == Phase::running) {
    if (session->record.egress_port != 0 && !settings_.egress.gate->serves(session->record.id))
      throw SessionError(SessionFailure::unavailable, "the session's egress proxy is not running");
    co_return;
  }
  co_await uninterrupted(start_sandbox(std::move(session)));
}

asio::awaitable<void> SessionStore::stop(std::shared_ptr<Session> session) {
  if (session->phase == Phase::stopped) co_return;
  co_await uninterrupted(stop_sandbox(std::move(session)));
}

asio::awaitable<void> SessionStore::remove(std::shared_ptr<Session> session) {
  co_await uninterrupted(remove_sandbox(std::move(session)));
}

asio::awaitable<std::string> SessionStore::create_sandbox(SessionRecord record,
                                                          std::optional<EgressPolicy> egress) {
  const LayerUse in_use(*this, record.layers);
  record.id = make_session_id();
  record.state = SessionState::running;
  record.egress_port = egress ? settings_.egress.port : 0;
  Sandbox sandbox;
  while (!sandbox.pidfd) {
    record.uid_base = take_range();
    sandbox = co_await try_create(record, egress);
  }
  use_layers(record.layers);
  std::string id = record.id;
  auto session = std::make_shared<Session>(executor_, std::move(record));
  session->saved_use = session->record.last_used;
  if (egress) session->egress = std::move(*egress);
  sessions_.emplace(id, session);
  became_running(session, std::move(sandbox));
  co_return id;
}

std::uint32_t SessionStore::take_range() {
  const auto range = ranges_.take();
  if (range) return *range;
  throw SessionError(
      SessionFailure::unavailable,
      fmt::format("no uid range is free: there are {} sessions (DAIV_SANDBOX_UID_COUNT)",
                  sessions_.size()));
}

// Empty where another daemon of this host holds the range; then it stays taken here too, and the
// next one is tried.
asio::awaitable<Sandbox> SessionStore::try_create(SessionRecord& record,
                                                  const std::optional<EgressPolicy>& egress) {
  record.created = record.last_used = clock_();
  auto work = [this, record, egress, spec = plan_sandbox(record)] {
    try {
      if (egress) egress_files_.save(record.id, *egress, 0);
      os::crash_point("front.create.policy_saved");
      Sandbox sandbox = host_.create(spec);
      os::crash_point("front.create.runs");
      database_.save(record);
      os::crash_point("front.create.recorded");
      return sandbox;
    } catch (...) {  // whatever it was: first nothing may stay, then the caller gets to know
      host_.remove(record.id);
      if (egress) egress_files_.remove(record.id);
      throw;
    }
  };
  in_transit_.insert(record.id);
  Sandbox sandbox;
  std::exception_ptr failure;
  try {
    sandbox = co_await on_pool(pool_, std::move(work));
  } catch (const HostError& error) {
    if (error.kind() != runtime::Failure::range_taken) failure = std::current_exception();
  } catch (...) {  // rethrown below, after the books are straight
    failure = std::current_exception();
  }
  in_transit_.erase(record.id);
  if (!failure) co_return sandbox;
  ranges_.give_back(record.uid_base);
  std::rethrow_exception(failure);
}

void SessionStore::became_running(const std::shared_ptr<Session>& session, Sandbox sandbox) {
  session->phase = Phase::running;
  session->record.state = SessionState::running;
  session->leftover = Session::Leftover::none;
  const std::uint64_t start = ++session->starts;
  if (session->record.egress_port != 0) open_gate(*session, std::move(sandbox.egress_sockets));
  watches_.spawn("watch " + session->record.id, watch(session, start, std::move(sandbox.pidfd)));
}

asio::awaitable<void> SessionStore::start_sandbox(std::shared_ptr<Session> session) {
  SessionRecord record = session->record;
  record.state = SessionState::running;
  if (record.egress_port != 0) {
    require_gate(record);
    record.egress_port = settings_.egress.port;  // it may have changed with the settings
  }
  const bool leftover = session->leftover == Session::Leftover::dead_sandbox;
  auto work = [this, record, leftover, spec = plan_sandbox(record)] {
    if (leftover) host_.kill(record.id);
    Sandbox sandbox = host_.create(spec);
    os::crash_point("front.start.runs");
    try {
      database_.save(record);
      os::crash_point("front.start.recorded");
    } catch (...) {  // a sandbox that runs but is not recorded as running must not stay
      host_.kill(record.id);
      throw;
    }
    return sandbox;
  };
  Sandbox sandbox = co_await on_pool(pool_, std::move(work));
  session->record.egress_port = record.egress_port;
  became_running(session, std::move(sandbox));
}

asio::awaitable<void> SessionStore::stop_sandbox(std::shared_ptr<Session> session) {
  SessionRecord record = session->record;
  record.state = SessionState::stopped;
  record.stopped = clock_();
  // First, since an agent that was told to end its processes starts nothing any more: what still
  // runs after a crash is then ended, not taken up.
  auto announce = [this, record] { database_.save(record); };
  co_await on_pool(pool_, std::move(announce));
  session->phase = Phase::ending;
  close_gate(*session);
  co_await terminate_processes(agent_socket(session->record.id), settings_.stop_timeout);
  auto work = [this, record] {
    os::crash_point("front.stop.terminated");
    host_.kill(record.id);
    os::crash_point("front.stop.killed");
  };
  std::exception_ptr failure;
  try {
    co_await on_pool(pool_, std::move(work));
  } catch (...) {  // rethrown below
    failure = std::current_exception();
  }
  // Also after a failure: whether it still runs is not known, and the next start first clears what
  // is left.
  session->phase = Phase::stopped;
  if (failure) {
    session->leftover = Session::Leftover::dead_sandbox;
    std::rethrow_exception(failure);
  }
  session->record.state = SessionState::stopped;
  session->record.stopped = record.stopped;
}

// Where the record can't be removed the session is what it was, and the client may ask again.
asio::awaitable<void> SessionStore::forget(std::shared_ptr<Session> session) {
  const Phase before = std::exchange(session->phase, Phase::ending);
  session->presence = Session::Presence::removed;
  sessions_.erase(session->record.id);
  std::exception_ptr failure;
  try {
    auto work = [this, id = session->record.id] { database_.remove(id); };
    co_await on_pool(pool_, std::move(work));
  } catch (...) {  // rethrown below
    failure = std::current_exception();
  }
  if (!failure) co_return;
  session->phase = before;
  session->presence = Session::Presence::here;
  sessions_.emplace(session->record.id, session);
  std::rethrow_exception(failure);
}

// The record goes first: what a crash leaves on the host then belongs to nobody and is removed at
// the next start.
asio::awaitable<void> SessionStore::remove_sandbox(std::shared_ptr<Session> session) {
  if (session->presence == Session::Presence::removed) co_return;
  in_transit_.insert(session->record.id);  // busy on the host: tidy() keeps off
  auto work = [this, id = session->record.id, egress = session->record.egress_port != 0] {
    os::crash_point("front.remove.forgotten");
    if (egress) egress_files_.remove(id);
    remove_for_good(host_, id);
    os::crash_point("front.remove.removed");
  };
  std::exception_ptr failure;
  try {
    co_await forget(session);
    close_gate(*session);
    co_await on_pool(pool_, std::move(work));
  } catch (...) {  // rethrown below
    failure = std::current_exception();
  }
  in_transit_.erase(session->record.id);
  // After a failure files or processes may be left that own the range and use the layers; they are
  // freed with a restart.
  if (failure) std::rethrow_exception(failure);
  release_layers(session->record.layers);
  ranges_.give_back(session->record.uid_base);
}

asio::awaitable<void> SessionStore::save(std::shared_ptr<Session> session) {
  auto work = [this, record = session->record] { database_.save(record); };
  co_await uninterrupted(on_pool(pool_, std::move(work)));
  session->saved_use = session->record.last_used;
}

void SessionStore::mark_dead(Session& session) {
  if (session.phase != Phase::running) return;
  spdlog::warn("session={} event=sandbox_ended unexpectedly=true", session.record.id);
  session.phase = Phase::stopped;
  close_gate(session);
  session.leftover = Session::Leftover::dead_sandbox;
  session.record.state = SessionState::stopped;
  session.record.stopped = clock_();
}

// A pidfd is readable when its process has ended (pidfd_open(2)).
asio::awaitable<void> SessionStore::watch(std::shared_ptr<Session> session, std::uint64_t start,
                                          os::UniqueFd pidfd) {
  asio::posix::stream_descriptor descriptor(executor_, pidfd.get());
  static_cast<void>(pidfd.release());
  co_await descriptor.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
  if (session->starts != start || session->phase != Phase::running) co_return;
  mark_dead(*session);
  // Only where nothing works on the session; an operation that does clears up itself.
  const auto hold = session->lock.try_acquire();
  if (!hold) co_return;
  auto work = [this, record = session->record] {
    host_.kill(record.id);
    database_.save(record);
  };
  co_await uninterrupted(on_pool(pool_, std::move(work)));
  session->leftover = Session::Leftover::none;
}

void SessionStore::use_layers(const std::vector<std::string>& layers) {
  const std::scoped_lock lock(layers_mutex_);
  for (const auto& layer : layers) ++layers_[layer];
}

void SessionStore::release_layers(const std::vector<std::string>& layers) {
  const std::scoped_lock lock(layers_mutex_);
  for (const auto& layer : layers) {
    const auto found = layers_.find(layer);
    if (found != layers_.end() && --found->second == 0) layers_.erase(found);
  }
}

std::vector<std::string> SessionStore::layers_in_use() const {
  const std::scoped_lock lock(layers_mutex_);
  std::vector<std::string> names;
  names.reserve(layers_.size());
  for (const auto& [name, count] : layers_) names.push_back(name);
  return names;
}

asio::awaitable<void> SessionStore::shut_down() {
  watches_.cancel();
  co_await watches_.join();
}

}  // namespace daiv::sessions
