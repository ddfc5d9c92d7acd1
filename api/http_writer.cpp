#include "api/http_writer.hpp"

#include <fmt/format.h>

#include <array>
#include <ctime>

#include "api/failure.hpp"
#include "api/json_write.hpp"

namespace daiv::api {
namespace {

// IMF-fixdate (RFC 9110, section 5.6.7), never in the process's locale.
std::string http_date() {
  static constexpr std::array<std::string_view, 7> days{"Sun", "Mon", "Tue", "Wed",
                                                        "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> months{
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     days[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                     months[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

}  // namespace

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 422:
      return "Unprocessable Content";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

std::string write_head(const Response& response, const ResponseFrame& frame) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\ndate: {}\r\n", response.status,
                                 reason_phrase(response.status), http_date());
  if (!response.content_type.empty())
    head += fmt::format("content-type: {}\r\n", response.content_type);
  if (frame.framing == Framing::chunks) {
    head += "transfer-encoding: chunked\r\n";
  } else if (frame.framing == Framing::length && !has_no_body(response.status)) {
    head += fmt::format("content-length: {}\r\n", frame.length);
  }
  for (const auto& [name, value] : response.fields) head += fmt::format("{}: {}\r\n", name, value);
  if (frame.persistence == Persistence::close) {
    head += "connection: close\r\n";
  } else if (frame.version == HttpVersion::http_1_0) {
    head += "connection: keep-alive\r\n";
  }
  head += "\r\n";
  return head;
}

std::string write_chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

Response json_response(int status, std::string body) {
  Response response;
  response.status = status;
  response.content_type = "application/json";
  response.body = std::move(body);
  return response;
}

Response detail_response(int status, std::string_view detail) {
  std::string body = R"({"detail":)";
  append_json_string(body, detail);
  body += '}';
  return json_response(status, std::move(body));
}

HttpFailure::HttpFailure(int status, std::string_view detail)
    : answer_(detail_response(status, detail)) {}

}  // namespace daiv::api
