#include "proxy/idle_upstreams.hpp"

#include <algorithm>

using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

constexpr std::size_t max_idle = 128;  // of a session; a client of HTTP/2 may use 100 at once
// A loop of short commands is served. A server that waits less (Apache: 5 s; nginx: 75 s) closes,
// which take() sees.
constexpr std::chrono::seconds max_idle_time{30};

}  // namespace

void IdleUpstreams::keep(Upstream upstream) {
  if (!upstream.used || !upstream.received.empty() || upstream.channel->is_cut()) return;
  upstream.idle_since = steady_clock::now();
  idle_.push_front(std::move(upstream));
  if (idle_.size() > max_idle) idle_.pop_back();
}

std::optional<Upstream> IdleUpstreams::take(const std::function<bool(const Upstream&)>& fits) {
  for (auto found = idle_.begin();; found = idle_.erase(found)) {
    found = std::find_if(found, idle_.end(), fits);
    if (found == idle_.end()) return std::nullopt;
    if (found->channel->is_stale()) continue;
    std::optional<Upstream> taken(std::move(*found));
    idle_.erase(found);
    return taken;
  }
}

void IdleUpstreams::expire(steady_clock::time_point now) {
  std::erase_if(idle_,
                [now](const Upstream& known) { return now - known.idle_since >= max_idle_time; });
}

}  // namespace daiv::proxy
