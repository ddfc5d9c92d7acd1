#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sessions/session_record.hpp"

namespace daiv::sessions {

// The sessions on disk (SQLite, write-ahead log). Thread-safe; every call may block, so it is made
// on a pool. What a call has done a power cut does not undo, as with the files of the session that
// it speaks of. Throws os::Error: ENOSPC where the disk is full and nothing of it could be kept.
class SessionDatabase {
public:
  // Opens or creates `path`. A file of a newer version of this program is refused.
  explicit SessionDatabase(const std::string& path);
  ~SessionDatabase();
  SessionDatabase(const SessionDatabase&) = delete;
  SessionDatabase& operator=(const SessionDatabase&) = delete;

  [[nodiscard]] std::vector<SessionRecord> load();
  // Adds the record, or replaces the one of the same id.
  void save(const SessionRecord& record);
  // Sets the time of last use alone; nothing where there is no such record.
  void touch(const std::string& id, Time last_used);
  void remove(const std::string& id);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::sessions
