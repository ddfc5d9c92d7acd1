#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "proxy/egress_proxy.hpp"

namespace daiv::cli {

// What the proxy decided last, for `daiv-sandbox egress log`: of each session the last
// max_of_session, of all together the last max_of_all, where the session that was quiet for longest
// gives way. Kept in memory alone. Any thread may call it.
class EgressLog {
public:
  static constexpr std::size_t max_of_session = 500;
  static constexpr std::size_t max_of_all = 20'000;
  static constexpr std::size_t max_text_bytes = 512;  // of a name or a reason; the rest is cut off

  struct Entry {
    std::uint64_t number = 0;  // counts up, over all sessions
    std::chrono::system_clock::time_point time;
    proxy::Decision decision;
  };

  void record(proxy::Decision decision);

  // The session's entries above `seen`, oldest first; waits up to `wait` for the first of them.
  std::vector<Entry> read(const std::string& session, std::uint64_t seen,
                          std::chrono::milliseconds wait);

private:
  using Ring = std::deque<Entry>;

  void make_room(Ring& ring);
  std::vector<Entry> find(const std::string& session, std::uint64_t seen) const;

  std::mutex mutex_;
  std::condition_variable recorded_;
  std::map<std::string, Ring> rings_;  // none is empty
  std::uint64_t last_ = 0;
  std::size_t count_ = 0;
};

// An entry with a field for each part of its decision, in ASCII: what a sandbox sent is shown to a
// terminal.
nlohmann::json describe(const EgressLog::Entry& entry);

}  // namespace daiv::cli
