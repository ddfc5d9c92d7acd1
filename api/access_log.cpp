#include "api/access_log.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "api/json_write.hpp"

namespace daiv::api {
namespace {

constexpr std::size_t max_logged_characters = 80;

std::string tame(std::string_view text) {
  if (text.empty()) return "-";
  std::string out;
  for (const char c : text.substr(0, max_logged_characters)) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("-_./{}").find(c) != std::string_view::npos;
    out += plain ? c : '?';
  }
  return out;
}

double milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

std::string format_access(const AccessRecord& record, LogFormat format) {
  if (format == LogFormat::text)
    return fmt::format(
        "request={} method={} route={} session={} status={} duration_ms={:.1f} bytes={}",
        record.request_id, tame(record.method), record.route, tame(record.session_id),
        record.status, milliseconds(record.duration), record.sent_bytes);
  return fmt::format(
      R"({{"request":"{}","method":"{}","route":"{}","session":"{}","status":{},"duration_ms":{:.1f},"bytes":{}}})",
      record.request_id, tame(record.method), record.route, tame(record.session_id), record.status,
      milliseconds(record.duration), record.sent_bytes);
}

void log_access(const AccessRecord& record, LogFormat format) {
  spdlog::info("{}", format_access(record, format));
}

void log_failure(std::string_view request_id, std::string_view route, std::string_view what) {
  std::string text(what);  // may repeat what others said: it must not begin a line of its own
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  spdlog::error("request={} route={} error={}", request_id, route, text);
}

}  // namespace daiv::api
