#pragma once

#include <string>
#include <string_view>

#include "proxy/forwarded_head.hpp"
#include "proxy/request_target.hpp"

// What the proxy itself answers, as it goes over the wire. Pure.
namespace daiv::proxy {

// A body is left out of the answer to a HEAD (RFC 9110 §9.3.2).
enum class AnswerBody { sent, omitted };

struct Answer {
  int status = 400;
  std::string content_type = "text/plain";
  std::string body;
  Persistence persistence = Persistence::keep;
};
std::string to_text(const Answer& answer, AnswerBody body);

// 403 or 421: "egress: destination not allowed", the destination with the reason, and, where a rule
// could allow it, that rule. `method` is empty for a CONNECT.
Answer make_refusal(int status, std::string_view destination, std::string_view reason,
                    std::string_view rule);

// The rule, in the API's form, that would let a request through.
std::string suggest_rule(const HostName& host, std::string_view method);

// 502 or 504, a page with the reason.
Answer make_gateway_error(int status, std::string_view reason);

// What is no request that can be served: 400, 431, 408, 503.
Answer make_bad_request(int status, std::string_view reason);

}  // namespace daiv::proxy
