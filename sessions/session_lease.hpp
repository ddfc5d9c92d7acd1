#pragma once

#include <memory>
#include <utility>

#include "sessions/session_store.hpp"

namespace daiv::sessions {

// An operation's turn on a session: holds its lock, and notes its use when the operation begins and
// ends.
class SessionLease {
public:
  SessionLease(SessionStore& store, std::shared_ptr<Session> session, SessionLock::Hold hold)
      : store_(store), session_(std::move(session)), hold_(std::move(hold)) {
    session_->record.last_used = store_.now();
  }
  SessionLease(const SessionLease&) = delete;
  SessionLease& operator=(const SessionLease&) = delete;
  ~SessionLease() { session_->record.last_used = store_.now(); }

  [[nodiscard]] const std::shared_ptr<Session>& session() const noexcept { return session_; }

private:
  SessionStore& store_;
  std::shared_ptr<Session> session_;
  SessionLock::Hold hold_;
};

}  // namespace daiv::sessions
