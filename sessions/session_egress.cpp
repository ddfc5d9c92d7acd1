#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "sessions/deadline.hpp"
#include "sessions/on_pool.hpp"
#include "sessions/session_service.hpp"
#include "sessions/session_store.hpp"

// How the store keeps the egress proxy in agreement with its sessions.

namespace asio = boost::asio;

namespace daiv::sessions {

// A session that was made with egress never runs without.
void SessionStore::require_gate(const SessionRecord& record) const {
  if (record.egress_port == 0 || settings_.egress.gate != nullptr) return;
  throw SessionError(SessionFailure::unavailable,
                     "the session needs the egress proxy, which is not configured any more");
}

void SessionStore::open_gate(const Session& session, std::vector<os::UniqueFd> sockets) {
  try {
    settings_.egress.gate->open(session.record.id, std::move(sockets), session.egress);
  } catch (const std::exception& error) {  // it runs on, and is 503 until it starts anew
    spdlog::error("session={} event=egress_not_served error=\"{}\"", session.record.id,
                  error.what());
  }
}

void SessionStore::close_gate(const Session& session) {
  if (session.record.egress_port != 0 && settings_.egress.gate != nullptr)
    settings_.egress.gate->close(session.record.id);
}

asio::awaitable<EgressUpdate> SessionStore::update_egress(std::shared_ptr<Session> session,
                                                          EgressPolicy policy) {
  EgressUpdate update =
      co_await uninterrupted(change_egress(std::move(session), std::move(policy)));
  co_return update;
}

asio::awaitable<EgressUpdate> SessionStore::change_egress(std::shared_ptr<Session> session,
                                                          EgressPolicy policy) {
  if (session->record.egress_port == 0) co_return EgressUpdate::no_egress;
  require_gate(session->record);
  const std::string id = session->record.id;
  if (session->phase == Phase::running && !settings_.egress.gate->serves(id))
    co_return EgressUpdate::not_served;
  auto work = [this, id, policy, version = ++session->egress_version] {
    egress_files_.save(id, policy, version);
  };
  const std::uint64_t version = session->egress_version;
  co_await on_pool(pool_, std::move(work));
  if (session->presence == Session::Presence::removed) {
    auto undo = [this, id] { egress_files_.remove(id); };
    co_await on_pool(pool_, std::move(undo));
    throw SessionError(SessionFailure::not_found, "Session not found");
  }
  // Two changes at once: the one that was asked for later stays.
  if (version < session->egress_version) co_return EgressUpdate::done;
  session->egress = std::move(policy);
  settings_.egress.gate->update(id, session->egress);  // where it is stopped, its start takes it
  co_return EgressUpdate::done;
}

// Secrets do not outlive a boot. Until a client brings them again, nothing is let through.
void SessionStore::restore_egress(const std::shared_ptr<Session>& session) {
  auto policy = egress_files_.find(session->record.id);
  if (policy) {
    session->egress = std::move(*policy);
    return;
  }
  spdlog::warn("session={} event=egress_policy_lost effect=\"denies everything until PUT egress\"",
               session->record.id);
}

void SessionStore::forget_lost_policies() {
  egress_files_.discard_unfinished();
  for (const std::string& id : egress_files_.list())
    if (!find(id)) egress_files_.remove(id);
}

}  // namespace daiv::sessions
