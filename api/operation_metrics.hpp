#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "api/histogram.hpp"

namespace daiv::api {

// Counts what sessions were asked for and how it ended, without the time that clients took to send
// and to read. Used on the io thread alone.
class OperationMetrics {
public:
  // Both from fixed sets: "create" and "ok", "busy", ….
  void record(std::string_view operation, std::string_view outcome,
              std::chrono::nanoseconds duration);
  void expose(std::string& out) const;

private:
  std::map<std::pair<std::string_view, std::string_view>, std::uint64_t> outcomes_;
  std::map<std::string_view, Histogram> durations_;
};

}  // namespace daiv::api
