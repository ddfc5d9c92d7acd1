#include "proxy/answer.hpp"

#include <fmt/format.h>

namespace daiv::proxy {
namespace {

std::string_view name_of(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 408:
      return "Request Timeout";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Error";
  }
}

// The reason may hold a name that a client chose.
std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
        break;
    }
  }
  return escaped;
}

}  // namespace

std::string to_text(const Answer& answer, AnswerBody body) {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\ncontent-length: {}\r\n", answer.status,
                  name_of(answer.status), answer.content_type, answer.body.size());
  if (answer.persistence == Persistence::close) text += "Connection: close\r\n";
  text += "\r\n";
  if (body == AnswerBody::sent) text += answer.body;
  return text;
}

Answer make_refusal(int status, std::string_view destination, std::string_view reason,
                    std::string_view rule) {
  Answer answer;
  answer.status = status;
  answer.body = fmt::format("egress: destination not allowed\n{}: {}\n", destination, reason);
  if (!rule.empty()) answer.body += fmt::format("a rule that would allow it: {}\n", rule);
  return answer;
}

std::string suggest_rule(const HostName& host, std::string_view method) {
  // Both are tokens or host names here: nothing that JSON would have to escape.
  if (method.empty()) return fmt::format(R"({{"host": "{}"}})", host.text());
  return fmt::format(R"({{"host": "{}", "methods": ["{}"]}})", host.text(), method);
}

Answer make_gateway_error(int status, std::string_view reason) {
  Answer answer;
  answer.status = status;
  answer.content_type = "text/html";
  answer.body = fmt::format(
      "<html>\n<head><title>{0} {1}</title></head>\n<body>\n<h1>{0} {1}</h1>\n"
      "<p>egress: {2}</p>\n</body>\n</html>\n",
      status, name_of(status), escape_html(reason));
  return answer;
}

Answer make_bad_request(int status, std::string_view reason) {
  Answer answer;
  answer.status = status;
  answer.body = fmt::format("egress: {}\n", reason);
  answer.persistence = Persistence::close;
  return answer;
}

}  // namespace daiv::proxy
