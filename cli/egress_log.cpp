#include "cli/egress_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "cli/egress_plan.hpp"

namespace daiv::cli {
namespace {

// A copy: resize() would keep the memory of the whole.
void cut(std::string& text) {
  if (text.size() > EgressLog::max_text_bytes) text = text.substr(0, EgressLog::max_text_bytes);
}

std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char byte) { return byte < 0x20 || byte >= 0x7f; }, '?');
  return text;
}

std::string describe_time(std::chrono::system_clock::time_point time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(time - whole);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)), part.count());
}

}  // namespace

void EgressLog::record(proxy::Decision decision) {
  for (std::string* text : {&decision.host, &decision.method, &decision.reason, &decision.rule})
    cut(*text);
  {
    const std::scoped_lock lock(mutex_);
    Ring& ring = rings_[decision.session];
    ring.push_back({++last_, std::chrono::system_clock::now(), std::move(decision)});
    ++count_;
    make_room(ring);
  }
  recorded_.notify_all();
}

void EgressLog::make_room(Ring& ring) {
  if (ring.size() > max_of_session) {
    ring.pop_front();
    --count_;
  }
  if (count_ <= max_of_all) return;
  const auto quietest = std::ranges::min_element(
      rings_, {}, [](const auto& entry) { return entry.second.back().number; });
  count_ -= quietest->second.size();
  rings_.erase(quietest);
}

std::vector<EgressLog::Entry> EgressLog::find(const std::string& session,
                                              std::uint64_t seen) const {
  const auto ring = rings_.find(session);
  if (ring == rings_.end()) return {};
  const auto first = std::ranges::upper_bound(ring->second, seen, {}, &Entry::number);
  return {first, ring->second.end()};
}

std::vector<EgressLog::Entry> EgressLog::read(const std::string& session, std::uint64_t seen,
                                              std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  std::vector<Entry> found;
  recorded_.wait_for(lock, wait, [&] {
    found = find(session, seen);
    return !found.empty();
  });
  return found;
}

nlohmann::json describe(const EgressLog::Entry& entry) {
  const proxy::Decision& decision = entry.decision;
  return {{"time", describe_time(entry.time)},
          {"session", decision.session},
          {"kind", describe(decision.kind)},
          {"decision", decision.allowed ? "allowed" : "denied"},
          {"method", printable(decision.method)},
          {"host", printable(decision.host)},
          {"port", decision.port},
          {"status", decision.status},
          {"injected", decision.injected},
          {"reason", printable(decision.reason)},
          {"rule", printable(decision.rule)},
          {"bytes_up", decision.bytes_up},
          {"bytes_down", decision.bytes_down},
          {"duration_ms", static_cast<double>(decision.duration.count()) / 1000.0}};
}

}  // namespace daiv::cli
