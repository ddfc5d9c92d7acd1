#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "images/image_service.hpp"
#include "sessions/agent_client.hpp"
#include "sessions/reaper_plan.hpp"
#include "sessions/session_service.hpp"
#include "sessions/session_store.hpp"
#include "sessions/shared_sessions.hpp"
#include "sessions/task_group.hpp"

namespace daiv::sessions {

class SeedStream;
class SessionLease;

struct SessionSettings {
  StoreSettings store;
  std::string spool_dir;  // for output that does not fit into memory
  std::uint32_t run_uid = 1000;
  std::uint32_t run_gid = 1000;
  std::uint64_t pids_limit = 4096;
  std::chrono::seconds command_timeout{0};  // 0: none
  std::chrono::milliseconds lock_wait{30000};
  std::uint64_t max_output_bytes = 32U << 20;
  std::uint64_t seed_max_bytes = 8ULL << 30;
  std::uint64_t seed_max_entries = 2'000'000;
  enum class Reaper { on, off } reaper = Reaper::on;
  std::chrono::seconds reaper_interval{600};
  ReaperSettings reaping;
  std::optional<SharedSettings> shared;  // empty: locks in this process alone
};

// Finds an image, pulling it where it is missing; blocks. Throws images::ImageError.
using ImageSource = std::function<images::Image(const std::string& reference)>;

// Sessions on sandboxes of this host. All state is confined to the io thread (`executor`); what
// blocks runs on `pool`, image pulls on `pull_pool`, so that a slow registry holds up nothing else.
class NativeSessions : public SessionService {
public:
  NativeSessions(SessionSettings settings, SandboxHost& host, ImageSource images,
                 boost::asio::any_io_executor executor, boost::asio::thread_pool& pool,
                 boost::asio::thread_pool& pull_pool, Clock clock = std::chrono::system_clock::now);
  ~NativeSessions() override;

  // Takes up the sessions of an earlier run and starts the reaper. Blocks; once, before the io
  // context runs.
  void start();
  // Ends background work; sandboxes run on.
  boost::asio::awaitable<void> shut_down();

  boost::asio::awaitable<std::string> create(CreateOptions options) override;
  boost::asio::awaitable<bool> touch(std::string id) override;
  boost::asio::awaitable<std::vector<CommandResult>> run(std::string id,
                                                         RunOptions options) override;
  boost::asio::awaitable<std::unique_ptr<SeedSink>> begin_seed(std::string id) override;
  boost::asio::awaitable<std::string> fs(std::string id, std::string request) override;
  // Waits its turn like every other operation, and is `busy` where that does not come.
  boost::asio::awaitable<void> close(std::string id, CloseMode mode) override;
  [[nodiscard]] bool offers_egress() const override;
  boost::asio::awaitable<EgressUpdate> update_egress(std::string id, EgressPolicy policy) override;
  [[nodiscard]] bool exists(const std::string& id) const override;
  [[nodiscard]] Counts counts() const override;

  // For `daiv-sandbox ps`, oldest first.
  [[nodiscard]] std::vector<SessionRecord> list() const;
  // For pruning images; thread-safe.
  [[nodiscard]] std::vector<std::string> layers_in_use() const { return store_.layers_in_use(); }

  // One sweep of the reaper.
  boost::asio::awaitable<void> reap();

private:
  class Sink;

  boost::asio::awaitable<images::Image> find_image(std::string reference);
  boost::asio::awaitable<std::string> create_or_undo(CreateOptions options);
  boost::asio::awaitable<std::string> create_from_image(CreateOptions options);
  boost::asio::awaitable<std::shared_ptr<SessionLease>> enter(std::string id);
  void note_use(Session& session);
  boost::asio::awaitable<AgentConnection> open_agent(std::shared_ptr<Session> session);
  boost::asio::awaitable<std::vector<CommandResult>> run_commands(std::shared_ptr<Session> session,
                                                                  RunOptions options);
  boost::asio::awaitable<std::string> fs_exchange(std::shared_ptr<Session> session,
                                                  std::string request);
  boost::asio::awaitable<SeedStream> open_seed(std::shared_ptr<Session> session);
  boost::asio::awaitable<void> reap_forever();
  boost::asio::awaitable<void> sweep();
  boost::asio::awaitable<void> reap_session(Removal removal, Time begin);
  boost::asio::awaitable<void> remove_reaped(std::shared_ptr<Session> session, std::string reason);

  SessionSettings settings_;
  ImageSource images_;
  boost::asio::thread_pool& pool_;
  boost::asio::thread_pool& pull_pool_;
  SessionStore store_;
  std::unique_ptr<SharedSessions> shared_;  // empty: not shared
  TaskGroup background_;
};

}  // namespace daiv::sessions
