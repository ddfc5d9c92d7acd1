#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sessions/session_record.hpp"

namespace daiv::sessions {

// The sessions on disk (SQLite, write-ahead log). Thread-safe; every call may block, so it is made
// on a pool. A crash of the daemon loses nothing; a power cut loses at most the last moments, never
// the file. Throws DatabaseError.
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

class DatabaseError : public std::exception {
public:
  explicit DatabaseError(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  std::string text_;
};

}  // namespace daiv::sessions
