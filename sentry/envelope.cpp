#include "sentry/envelope.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/random.h>

#include <algorithm>
#include <array>

#include "os/error.hpp"
#include "wire/ascii.hpp"

namespace daiv::sentry {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view sdk_name = "daiv-sandbox";
constexpr std::array secret_headers{"x-api-key", "authorization", "cookie", "proxy-authorization"};

std::string hexadecimal(std::span<const unsigned char> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

double seconds(Time time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

std::string_view name(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warning:
      return "warning";
    case Level::error:
      return "error";
    case Level::fatal:
      return "fatal";
  }
  return "error";
}

// A log line may hold bytes that are no UTF-8: they must not make the whole envelope fail.
std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string envelope(const Ids& ids, Json item_header, const Json& payload) {
  const auto body = dump(payload);
  item_header["length"] = body.size();
  return fmt::format("{}\n{}\n{}\n", dump(Json{{"event_id", ids.event_id}}), dump(item_header),
                     body);
}

Json common(const Process& process, const Ids& ids) {
  return Json{
      {"event_id", ids.event_id},
      {"platform", "native"},
      {"release", process.release},
      {"environment", process.environment},
      {"server_name", process.server_name},
      {"sdk",
       {{"name", sdk_name}, {"version", process.release.substr(process.release.find('@') + 1)}}}};
}

Json attribute(std::string_view value) { return Json{{"value", value}, {"type", "string"}}; }

Json log_item(const Process& process, const Ids& ids, const LogRecord& record) {
  return Json{{"timestamp", seconds(record.time)},
              {"trace_id", ids.trace_id},
              {"level", record.level == Level::warning ? "warn" : name(record.level)},
              {"body", record.text},
              {"attributes",
               {{"logger.name", attribute(record.logger)},
                {"sentry.release", attribute(process.release)},
                {"sentry.environment", attribute(process.environment)},
                {"server.address", attribute(process.server_name)}}}};
}

bool is_secret(std::string_view header) {
  return std::ranges::find(secret_headers, wire::lower(header)) != secret_headers.end();
}

Json request_json(const Process& process, const Request& request) {
  Json json{{"method", request.method}, {"url", request.route}};
  if (process.pii == Pii::stripped) return json;
  auto& headers = json["headers"] = Json::object();
  for (const auto& [header, value] : request.headers)
    if (!is_secret(header)) headers[header] = value;
  return json;
}

std::string_view trace_status(int status) {
  if (status < 400) return "ok";
  if (status == 404) return "not_found";
  if (status == 409) return "already_exists";
  if (status == 403) return "permission_denied";
  if (status == 503) return "unavailable";
  return status < 500 ? "invalid_argument" : "internal_error";
}

}  // namespace

Ids make_ids() {
  std::array<unsigned char, 40> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    os::throw_errno("getrandom", "event ids");
  const std::span all(bytes);
  return {hexadecimal(all.subspan(0, 16)), hexadecimal(all.subspan(16, 16)),
          hexadecimal(all.subspan(32, 8))};
}

std::string make_event_envelope(const Process& process, const Ids& ids, const LogRecord& record) {
  auto event = common(process, ids);
  event["timestamp"] = seconds(record.time);
  event["level"] = name(record.level);
  event["logger"] = record.logger;
  event["message"] = {{"formatted", record.text}};
  return envelope(ids, {{"type", "event"}, {"content_type", "application/json"}}, event);
}

std::string make_log_envelope(const Process& process, const Ids& ids,
                              std::span<const LogRecord> records) {
  auto items = Json::array();
  for (const auto& record : records) items.push_back(log_item(process, ids, record));
  return envelope(ids,
                  {{"type", "log"},
                   {"item_count", records.size()},
                   {"content_type", "application/vnd.sentry.items.log+json"}},
                  {{"items", std::move(items)}});
}

std::string make_transaction_envelope(const Process& process, const Ids& ids,
                                      const Request& request) {
  auto transaction = common(process, ids);
  transaction["type"] = "transaction";
  transaction["transaction"] = fmt::format("{} {}", request.method, request.route);
  transaction["transaction_info"] = {{"source", "route"}};
  transaction["start_timestamp"] = seconds(request.start);
  transaction["timestamp"] = seconds(request.start + request.duration);
  transaction["contexts"] = {{"trace",
                              {{"trace_id", ids.trace_id},
                               {"span_id", ids.span_id},
                               {"op", "http.server"},
                               {"status", trace_status(request.status)},
                               {"client_sample_rate", process.traces_sample_rate},
                               {"data",
                                {{"http.response.status_code", request.status},
                                 {"profiles_sample_rate", process.profiles_sample_rate}}}}}};
  transaction["tags"] = {{"request_id", request.id}, {"session_id", request.session}};
  transaction["request"] = request_json(process, request);
  if (process.pii == Pii::sent) transaction["user"] = {{"ip_address", request.client_address}};
  transaction["spans"] = Json::array();
  return envelope(ids, {{"type", "transaction"}, {"content_type", "application/json"}},
                  transaction);
}

}  // namespace daiv::sentry
