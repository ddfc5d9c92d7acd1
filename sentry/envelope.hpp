#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Envelopes as Sentry takes them (Sentry developer documentation, "Envelopes"): a header line, then
// for each item a header line and its payload. Pure: values in, text out.
namespace daiv::sentry {

using Time = std::chrono::system_clock::time_point;

enum class Level { debug, info, warning, error, fatal };

enum class Pii {
  stripped,  // no client address, no header values
  sent,
};

// What is the same in all that one process sends.
struct Process {
  std::string release;      // "daiv-sandbox@0.1.0"
  std::string environment;  // "production"
  std::string server_name;
  Pii pii = Pii::stripped;
  double traces_sample_rate = 0;
  double profiles_sample_rate = 0;  // passed on with transactions; there is no profiler
};

// 16 random bytes in hexadecimal identify an event or a trace, 8 a span.
struct Ids {
  std::string event_id;
  std::string trace_id;
  std::string span_id;
};

// Random ids (getrandom(2)). Throws os::Error.
Ids make_ids();

// One handled request.
struct Request {
  std::string id;
  std::string method;
  std::string route;  // the template, "/session/{session_id}/"
  std::string session;
  int status = 0;
  Time start;
  std::chrono::microseconds duration{0};
  std::string client_address;
  std::vector<std::pair<std::string, std::string>> headers;
};

struct LogRecord {
  Time time;
  Level level = Level::info;
  std::string logger;
  std::string text;
};

// An item of type "event": something that an operator should look at.
std::string make_event_envelope(const Process& process, const Ids& ids, const LogRecord& record);

// An item of type "log" with all of `records`.
std::string make_log_envelope(const Process& process, const Ids& ids,
                              std::span<const LogRecord> records);

// An item of type "transaction". With Pii::stripped neither address nor headers are in it; the API
// key, cookies and authorization never are.
std::string make_transaction_envelope(const Process& process, const Ids& ids,
                                      const Request& request);

}  // namespace daiv::sentry
