#include "sessions/reaper_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace daiv::sessions {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

std::optional<std::string> find_age_reason(const SessionRecord& record,
                                           const ReaperSettings& settings, Time now) {
  if (record.state == SessionState::stopped) {
    const auto age = duration_cast<seconds>(now - record.stopped);
    if (age <= settings.grace) return std::nullopt;
    return fmt::format("stopped for {}s, grace is {}s", age.count(), settings.grace.count());
  }
  const auto idle = duration_cast<seconds>(now - record.last_used);
  if (settings.running_max_idle.count() == 0 || idle <= settings.running_max_idle)
    return std::nullopt;
  return fmt::format("running and idle for {}s, the limit is {}s", idle.count(),
                     settings.running_max_idle.count());
}

}  // namespace

std::vector<Removal> plan_reaping(const std::vector<ReaperView>& sessions,
                                  const ReaperSettings& settings, Time now) {
  std::vector<ReaperView> oldest_first = sessions;
  std::ranges::sort(oldest_first, {},
                    [](const ReaperView& view) { return view.record->last_used; });
  std::vector<Removal> removals;
  std::vector<const SessionRecord*> spare;  // stopped, idle and young enough
  std::size_t stopped = 0;
  for (const ReaperView& view : oldest_first) {
    const bool is_stopped = view.record->state == SessionState::stopped;
    if (view.activity == Activity::in_flight) {
      stopped += is_stopped ? 1 : 0;
      continue;
    }
    auto reason = find_age_reason(*view.record, settings, now);
    if (reason) {
      removals.push_back({view.record->id, std::move(*reason)});
    } else if (is_stopped) {
      ++stopped;
      spare.push_back(view.record);
    }
  }
  for (const SessionRecord* record : spare) {
    if (stopped <= settings.max_stopped) break;
    removals.push_back(
        {record->id, fmt::format("more than {} stopped sessions, this one unused for longest",
                                 settings.max_stopped)});
    --stopped;
  }
  return removals;
}

}  // namespace daiv::sessions
