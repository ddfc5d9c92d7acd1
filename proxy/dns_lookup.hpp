#pragma once

#include <chrono>
#include <string>

#include "proxy/resolver.hpp"

namespace daiv::proxy {

struct TimedLookup {
  Lookup lookup;
  // How long it holds, from the shortest of its records' times to live (RFC 1035 §3.2.1) within
  // bounds. Of a failure: a moment.
  std::chrono::seconds lifetime{0};
};

inline constexpr std::chrono::seconds min_answer_lifetime{1};
inline constexpr std::chrono::seconds max_answer_lifetime{3600};
inline constexpr std::chrono::seconds failure_lifetime{3};

// Asks /etc/hosts, then the name servers of /etc/resolv.conf (or of the ways' own) as both are now
// (c-ares), through sockets of the ways'. Addresses come in the order of RFC 6724. Blocks, for a
// bounded time.
TimedLookup look_up(const std::string& name, const LookupWays& ways);

}  // namespace daiv::proxy
