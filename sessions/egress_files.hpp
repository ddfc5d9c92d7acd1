#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sessions/egress_policy.hpp"

namespace daiv::sessions {

// The policies and secrets of sessions, each in a file of its own (0600) under the runtime
// directory, so that a new daemon finds them and a reboot forgets them. Thread-safe; blocks for the
// file system. Throws os::Error.
class EgressFiles {
public:
  explicit EgressFiles(std::string directory) : directory_(std::move(directory)) {}

  // `version` grows with each change of a session's policy: an older one never replaces a newer.
  void save(const std::string& session, const EgressPolicy& policy, std::uint64_t version);
  // Empty where there is none or where it does not decode.
  [[nodiscard]] std::optional<EgressPolicy> find(const std::string& session) const;
  void remove(const std::string& session);
  // What a crash left of a save that did not come to its end. Only while nothing else saves.
  void discard_unfinished();
  // Ids of the sessions that have a file.
  [[nodiscard]] std::vector<std::string> list() const;

private:
  std::string directory_;  // empty: nothing is kept
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> versions_;
};

}  // namespace daiv::sessions
