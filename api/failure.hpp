#pragma once

#include <exception>
#include <string>
#include <utility>

#include "api/http_message.hpp"

namespace daiv::api {

// Ends the handling of a request with this answer. Thrown by handlers, caught where the request
// ends (connection.cpp).
class HttpFailure : public std::exception {
public:
  explicit HttpFailure(Response answer) : answer_(std::move(answer)) {}
  // {"detail": text}
  HttpFailure(int status, std::string_view detail);
  [[nodiscard]] const Response& answer() const noexcept { return answer_; }
  [[nodiscard]] const char* what() const noexcept override { return "request refused"; }

private:
  Response answer_;
};

// The client went away, or sent and read too slowly: there is nobody to answer.
class ClientGone : public std::exception {
public:
  [[nodiscard]] const char* what() const noexcept override { return "client gone"; }
};

// An answer with the JSON text {"detail": detail}.
Response detail_response(int status, std::string_view detail);
Response json_response(int status, std::string body);

}  // namespace daiv::api
