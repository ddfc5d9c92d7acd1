#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "os/unique_fd.hpp"
#include "sessions/egress_files.hpp"
#include "sessions/egress_gate.hpp"
#include "sessions/sandbox_host.hpp"
#include "sessions/session_database.hpp"
#include "sessions/session_lock.hpp"
#include "sessions/session_record.hpp"
#include "sessions/task_group.hpp"
#include "sessions/uid_ranges.hpp"

namespace daiv::sessions {

enum class EgressUpdate;

enum class Phase {
  stopped,
  running,
  ending,  // being stopped or removed: its end is expected
};

// One session in memory. Shared by the store and the operations that are under way when it is
// removed.
struct Session {
  Session(boost::asio::any_io_executor executor, SessionRecord its_record)
      : record(std::move(its_record)), lock(std::move(executor)) {}

  SessionRecord record;
  SessionLock lock;
  Phase phase = Phase::stopped;
  enum class Leftover { none, dead_sandbox } leftover = Leftover::none;
  enum class Presence { here, removed } presence = Presence::here;
  std::uint64_t starts = 0;  // tells one run of the sandbox from the next
  Time saved_use;            // record.last_used as it is on disk
  EgressPolicy egress;       // where record.egress_port is set
  std::uint64_t egress_version = 0;
};

using Clock = std::function<Time()>;

struct StoreSettings {
  std::string database_path;
  std::string runtime_dir;  // sessions/<id>/agent.sock below it
  std::uint32_t uid_start = 0;
  std::uint32_t uid_count = 0;
  enum class NoNewPrivs { on, off } no_new_privs = NoNewPrivs::on;
  std::uint32_t max_processes = 0;
  std::vector<std::string> prune_dirs;
  std::chrono::milliseconds stop_timeout{2000};
  EgressSetup egress;
};

// The sessions: in memory, on disk and on the host, and the changes between their states. Used on
// the io thread, apart from layers_in_use(). Changes of one session are made by whoever holds its
// lock; they are never left half made, so a cancellation does not interrupt them. Failures are
// SessionError (the client's mistake, or worth a retry), HostError, os::Error.
class SessionStore {
public:
  SessionStore(StoreSettings settings, SandboxHost& host, boost::asio::any_io_executor executor,
               boost::asio::thread_pool& pool, Clock clock);

  // Brings records and host together after a start. Blocks; called once, before the io context
  // runs.
  void reconcile();

  [[nodiscard]] std::shared_ptr<Session> find(const std::string& id) const;
  [[nodiscard]] std::vector<std::shared_ptr<Session>> all() const;
  [[nodiscard]] std::string agent_socket(const std::string& id) const;
  [[nodiscard]] Time now() const { return clock_(); }

  // Makes a session of `record`, whose id, uid range and times are filled in here. It can be found
  // only when it works; a failure leaves nothing. Returns its id.
  boost::asio::awaitable<std::string> create(SessionRecord record,
                                             std::optional<EgressPolicy> egress = {});
  // Starts it unless it runs.
  boost::asio::awaitable<void> start(std::shared_ptr<Session> session);
  boost::asio::awaitable<void> stop(std::shared_ptr<Session> session);
  boost::asio::awaitable<void> remove(std::shared_ptr<Session> session);
  boost::asio::awaitable<void> save(std::shared_ptr<Session> session);
  // Without the session's lock: it holds at once, whatever runs in the session.
  boost::asio::awaitable<EgressUpdate> update_egress(std::shared_ptr<Session> session,
                                                     EgressPolicy policy);
  [[nodiscard]] const EgressSetup& egress() const { return settings_.egress; }
  // Its agent does not answer any more: the next start() makes it anew.
  void mark_dead(Session& session);

  // Writes what changed in use times, and removes from the host what belongs to no session.
  boost::asio::awaitable<void> tidy();

  // Names of all layers that a session needs, also one that is being made. Thread-safe.
  [[nodiscard]] std::vector<std::string> layers_in_use() const;

  // Ends the watching of sandboxes; they run on.
  boost::asio::awaitable<void> shut_down();

private:
  class LayerUse;

  [[nodiscard]] SandboxSpec plan_sandbox(const SessionRecord& record) const;
  boost::asio::awaitable<std::string> create_sandbox(SessionRecord record,
                                                     std::optional<EgressPolicy> egress);
  boost::asio::awaitable<Sandbox> try_create(SessionRecord& record,
                                             const std::optional<EgressPolicy>& egress);
  std::uint32_t take_range();
  boost::asio::awaitable<void> start_sandbox(std::shared_ptr<Session> session);
  boost::asio::awaitable<void> stop_sandbox(std::shared_ptr<Session> session);
  boost::asio::awaitable<void> forget(std::shared_ptr<Session> session);
  boost::asio::awaitable<void> remove_sandbox(std::shared_ptr<Session> session);
  void became_running(const std::shared_ptr<Session>& session, Sandbox sandbox);
  void open_gate(const Session& session, std::vector<os::UniqueFd> sockets);
  void close_gate(const Session& session);
  void require_gate(const SessionRecord& record) const;
  boost::asio::awaitable<EgressUpdate> change_egress(std::shared_ptr<Session> session,
                                                     EgressPolicy policy);
  void restore_egress(const std::shared_ptr<Session>& session);
  void forget_lost_policies();
  boost::asio::awaitable<void> watch(std::shared_ptr<Session> session, std::uint64_t start,
                                     os::UniqueFd pidfd);
  void restore(SessionRecord record);
  void use_layers(const std::vector<std::string>& layers);
  void release_layers(const std::vector<std::string>& layers);

  StoreSettings settings_;
  SandboxHost& host_;
  boost::asio::any_io_executor executor_;
  boost::asio::thread_pool& pool_;
  Clock clock_;
  SessionDatabase database_;
  EgressFiles egress_files_;
  UidRanges ranges_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  std::set<std::string>
      in_transit_;  // ids that the host is busy with and that have no session yet, or none any more
  mutable std::mutex layers_mutex_;
  std::map<std::string, std::size_t> layers_;  // name → how many sessions need it
  TaskGroup watches_;
};

}  // namespace daiv::sessions
