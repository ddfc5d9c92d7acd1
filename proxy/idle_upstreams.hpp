#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <optional>

#include "proxy/upstream.hpp"

namespace daiv::proxy {

// The connections of HTTP/1.1 to origins that a session keeps while no exchange is on them, for
// whichever of its clients asks next: a program that makes a connection for each request costs its
// origin one. Never shared between sessions, nor between credentials.
class IdleUpstreams {
public:
  // Where it has carried a whole exchange and nothing is left over.
  void keep(Upstream upstream);

  // The one that was used last of those that fit and that the origin has not closed.
  std::optional<Upstream> take(const std::function<bool(const Upstream&)>& fits);

  // Closes those that were idle for long, to be called at intervals; and all.
  void expire(std::chrono::steady_clock::time_point now);
  void clear() noexcept { idle_.clear(); }

  [[nodiscard]] bool empty() const noexcept { return idle_.empty(); }

private:
  std::list<Upstream> idle_;  // the last used in front
};

}  // namespace daiv::proxy
