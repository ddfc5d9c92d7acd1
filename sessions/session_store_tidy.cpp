#include <spdlog/spdlog.h>

#include <utility>

#include "sessions/deadline.hpp"
#include "sessions/on_pool.hpp"
#include "sessions/reconciliation.hpp"
#include "sessions/session_store.hpp"

// How the store keeps memory, disk and host in agreement: after a start, and from time to time.

namespace asio = boost::asio;

namespace daiv::sessions {

void SessionStore::restore(SessionRecord record) {
  if (!ranges_.claim(record.uid_base)) {
    // Another range setting than when it was made: it keeps its own range, nobody else can get it.
    spdlog::warn("session={} event=foreign_uid_range uid_base={}", record.id, record.uid_base);
  }
  use_layers(record.layers);
  const std::string id = record.id;
  auto session = std::make_shared<Session>(executor_, std::move(record));
  session->saved_use = session->record.last_used;
  if (session->record.egress_port != 0) restore_egress(session);
  sessions_.emplace(id, std::move(session));
}

void SessionStore::reconcile() {
  std::vector<SessionRecord> records = database_.load();
  const Reconciliation plan = plan_reconciliation(records, host_.list());
  for (const auto& id : plan.remove_from_host) {
    spdlog::info("session={} event=removed reason=\"no record of it\"", id);
    host_.remove(id);
  }
  for (const auto& id : plan.forget) {
    spdlog::warn("session={} event=forgotten reason=\"its writable layer is gone\"", id);
    database_.remove(id);
    std::erase_if(records, [&](const SessionRecord& record) { return record.id == id; });
  }
  for (auto& record : records) restore(std::move(record));
  for (const auto& id : plan.adopt) {
    const auto session = find(id);
    try {
      require_gate(session->record);
      const runtime::AdoptSandbox request{id, session->record.egress_port,
                                          settings_.egress.transparent};
      became_running(session, host_.adopt(request));
      spdlog::info("session={} event=adopted", id);
    } catch (const std::exception&
                 error) {  // one sandbox that can't be adopted must not stop the daemon
      spdlog::warn("session={} event=stopped reason=\"{}\"", id, error.what());
      host_.kill(id);
      session->record.state = SessionState::stopped;
      session->record.stopped = clock_();
    }
    database_.save(session->record);
  }
  for (const auto& id : plan.mark_stopped) {
    const auto session = find(id);
    spdlog::info("session={} event=stopped reason=\"its sandbox ended while the daemon was away\"",
                 id);
    session->record.state = SessionState::stopped;
    session->record.stopped = clock_();
    host_.kill(id);  // the rest of a dead sandbox: its cgroup and socket
    database_.save(session->record);
  }
  forget_lost_policies();
}

asio::awaitable<void> SessionStore::tidy() {
  std::vector<SessionRecord> changed;
  for (const auto& [id, session] : sessions_) {
    if (session->saved_use == session->record.last_used) continue;
    changed.push_back(session->record);
    session->saved_use = session->record.last_used;
  }
  auto work = [this, changed = std::move(changed)] {
    for (const auto& record : changed) database_.touch(record.id, record.last_used);
    return host_.list();
  };
  const std::vector<runtime::SandboxEntry> found =
      co_await uninterrupted(on_pool(pool_, std::move(work)));
  for (const auto& entry : found) {
    if (sessions_.contains(entry.session) || in_transit_.contains(entry.session)) continue;
    spdlog::warn("session={} event=removed reason=\"no record of it\"", entry.session);
    auto remove = [this, id = entry.session] { host_.remove(id); };
    co_await uninterrupted(on_pool(pool_, std::move(remove)));
  }
}

}  // namespace daiv::sessions
