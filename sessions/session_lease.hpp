#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "sessions/session_store.hpp"
#include "sessions/shared_sessions.hpp"

namespace daiv::sessions {

// The right to work on a session, in this process.
struct LocalTurn {
  std::shared_ptr<Session> session;
  SessionLock::Hold hold;  // goes before the session, whose lock it is
};

// An operation's turn on a session: holds its lock, and notes its use when the operation begins and
// ends.
class SessionLease {
public:
  // `shared` may be null; then no other daemon is asked or told.
  SessionLease(SessionStore& store, SharedSessions* shared, std::shared_ptr<Session> session,
               SessionLock::Hold hold)
      : store_(store),
        shared_(shared),
        local_(std::make_shared<LocalTurn>(std::move(session), std::move(hold))) {
    note_use();
  }
  SessionLease(const SessionLease&) = delete;
  SessionLease& operator=(const SessionLease&) = delete;
  ~SessionLease() { note_use(); }

  // The lock among daemons. That of this process is held until the other is free: so the next
  // operation waits in its queue, and not by asking Redis from time to time.
  void hold(SharedSessions::Turn turn) {
    turn.keep(local_);
    turn_.emplace(std::move(turn));
  }

  [[nodiscard]] const std::shared_ptr<Session>& session() const noexcept { return local_->session; }

private:
  void note_use() {
    session()->record.last_used = store_.now();
    if (shared_ == nullptr) return;
    const std::string& id = session()->record.id;
    if (session()->presence == Session::Presence::removed) {
      shared_->forget(id);
    } else {
      shared_->note_use(id, session()->record.last_used);
    }
  }

  SessionStore& store_;
  SharedSessions* shared_;
  std::shared_ptr<LocalTurn> local_;
  std::optional<SharedSessions::Turn> turn_;
};

}  // namespace daiv::sessions
