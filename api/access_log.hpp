#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/settings.hpp"

namespace daiv::api {

// What is logged of one request: never a body, a key, a header or a query.
struct AccessRecord {
  std::string request_id;
  std::string method;
  std::string_view route;  // the path's template; "-" where none matched
  std::string session_id;
  int status = 0;  // 0: the client went away
  std::chrono::nanoseconds duration{0};
  std::uint64_t sent_bytes = 0;
};

// "request=… method=… route=… session=… status=… duration_ms=… bytes=…", or the same as a JSON
// object. What a client chose (method, session) is cut and has no characters that could end a field
// or a line.
std::string format_access(const AccessRecord& record, LogFormat format);

void log_access(const AccessRecord& record, LogFormat format);

// A request that failed for a reason of ours.
void log_failure(std::string_view request_id, std::string_view route, std::string_view what);

}  // namespace daiv::api
