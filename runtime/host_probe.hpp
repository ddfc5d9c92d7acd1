#pragma once

#include "runtime/broker_options.hpp"
#include "runtime/broker_protocol.hpp"

namespace daiv::runtime {

// What a host must have, each tried for real: pairs of a name and "ok", or what is wrong and how to
// mend it.
HostReport probe_host(const BrokerOptions& options);

// The part of /etc/subuid or /etc/subgid that overlaps the ranges, as its line; empty where none
// does. Pure.
std::string find_overlap(std::string_view subids, const UidRanges& ranges);

// Whether a kernel release such as "6.1.0-18-amd64" is at least this version. Pure.
bool is_release_at_least(std::string_view release, unsigned major, unsigned minor);

}  // namespace daiv::runtime
