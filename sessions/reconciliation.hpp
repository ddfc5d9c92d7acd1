#pragma once

#include <string>
#include <vector>

#include "runtime/broker_protocol.hpp"
#include "sessions/session_record.hpp"

namespace daiv::sessions {

// What to do so that records and host agree after a restart, a crash or a power cut.
struct Reconciliation {
  std::vector<std::string>
      remove_from_host;             // what has no record: a creation or a removal that did not end
  std::vector<std::string> forget;  // records whose writable layer is gone
  std::vector<std::string> adopt;   // running sandboxes that go on
  std::vector<std::string> mark_stopped;  // either recorded as running, or running
};

Reconciliation plan_reconciliation(const std::vector<SessionRecord>& records,
                                   const std::vector<runtime::SandboxEntry>& host);

}  // namespace daiv::sessions
