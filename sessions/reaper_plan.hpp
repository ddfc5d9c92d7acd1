#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "sessions/session_record.hpp"

namespace daiv::sessions {

struct ReaperSettings {
  std::chrono::seconds grace{43200};  // stopped for longer: removed
  std::size_t max_stopped =
      50;  // more stopped sessions than this: those unused for longest are removed
  std::chrono::seconds running_max_idle{14400};  // running and unused for longer: removed; 0: never
};

enum class Activity { idle, in_flight };  // in_flight: an operation holds or awaits the session

struct ReaperView {
  const SessionRecord* record;
  Activity activity;
};

struct Removal {
  std::string id;
  std::string reason;  // for the log: "stopped for 43201s, grace is 43200s"
};

// Which sessions to remove at `now`, the oldest first. Never one with an operation in flight; such
// a session still counts among the stopped ones.
std::vector<Removal> plan_reaping(const std::vector<ReaperView>& sessions,
                                  const ReaperSettings& settings, Time now);

}  // namespace daiv::sessions
