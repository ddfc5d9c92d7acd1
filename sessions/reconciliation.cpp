#include "sessions/reconciliation.hpp"

#include <map>

namespace daiv::sessions {

Reconciliation plan_reconciliation(const std::vector<SessionRecord>& records,
                                   const std::vector<runtime::SandboxEntry>& host) {
  std::map<std::string, const runtime::SandboxEntry*> found;
  for (const auto& entry : host) found.emplace(entry.session, &entry);
  Reconciliation plan;
  for (const SessionRecord& record : records) {
    const auto entry = found.find(record.id);
    if (entry == found.end() || !(entry->second->running || entry->second->has_writable_layer)) {
      plan.forget.push_back(record.id);
      continue;
    }
    const bool running = entry->second->running;
    found.erase(entry);
    const bool recorded_running = record.state == SessionState::running;
    if (running && recorded_running) {
      plan.adopt.push_back(record.id);
    } else if (running || recorded_running) {
      // Where it runs it was being closed, or started and not yet used, when the daemon died.
      plan.mark_stopped.push_back(record.id);
    }
  }
  for (const auto& [id, entry] : found) plan.remove_from_host.push_back(id);
  return plan;
}

}  // namespace daiv::sessions
