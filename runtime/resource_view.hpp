#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/broker_protocol.hpp"

// What a session with limits is shown of the machine: as many processors and as much memory as it
// may use, so that programs which size themselves by the machine fit. The cgroup enforces; this
// only informs. sysinfo(2) and /proc/stat can't be covered and tell the host's. Everything here is
// pure.
namespace daiv::runtime {

// A file that covers another one below /proc or /sys.
struct ViewFile {
  std::string_view filesystem;  // "proc" or "sys"
  std::string_view path;        // relative to it
  std::string content;

  friend bool operator==(const ViewFile&, const ViewFile&) = default;
};

// `cpuinfo`: the host's. Processors are numbered from 0 on, whichever the session runs on.
std::vector<ViewFile> plan_views(const Limits& limits, std::size_t processors,
                                 std::string_view cpuinfo);

}  // namespace daiv::runtime
