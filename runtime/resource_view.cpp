#include "runtime/resource_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace daiv::runtime {
namespace {

constexpr std::array<std::string_view, 3> processor_lists{
    "devices/system/cpu/online", "devices/system/cpu/possible", "devices/system/cpu/present"};

// The first `count` blocks of /proc/cpuinfo, which an empty line ends, numbered anew.
std::string plan_cpuinfo(std::string_view host, std::size_t count) {
  constexpr std::string_view number_key = "processor";
  std::string text;
  std::size_t number = 0;
  while (!host.empty() && number < count) {
    const std::size_t end = std::min(host.find('\n'), host.size() - 1);
    const std::string_view line = host.substr(0, end + 1);
    host.remove_prefix(end + 1);
    if (line.starts_with(number_key) && line.find(':') != std::string_view::npos) {
      text += fmt::format("{} {}\n", line.substr(0, line.find(':') + 1), number);
    } else {
      text += line;
    }
    if (line == "\n") ++number;
  }
  return text;
}

std::string plan_list(std::size_t processors) {
  return processors == 1 ? "0\n" : fmt::format("0-{}\n", processors - 1);
}

// Free is what the limit leaves at the start; it does not follow what is used.
std::string plan_meminfo(std::uint64_t bytes) {
  std::string text;
  const auto add = [&text](std::string_view name, std::uint64_t kib) {
    text += fmt::format("{:<16}{:>8} kB\n", fmt::format("{}:", name), kib);
  };
  for (const char* name : {"MemTotal", "MemFree", "MemAvailable"}) add(name, bytes >> 10);
  for (const char* name : {"Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal",
                           "SwapFree", "Shmem", "SReclaimable"})
    add(name, 0);
  return text;
}

}  // namespace

std::vector<ViewFile> plan_views(const Limits& limits, std::size_t processors,
                                 std::string_view cpuinfo) {
  std::vector<ViewFile> views;
  if (processors != 0) {
    views.push_back({"proc", "cpuinfo", plan_cpuinfo(cpuinfo, processors)});
    for (const std::string_view path : processor_lists)
      views.push_back({"sys", path, plan_list(processors)});
  }
  if (limits.memory_bytes != 0)
    views.push_back({"proc", "meminfo", plan_meminfo(limits.memory_bytes)});
  return views;
}

}  // namespace daiv::runtime
