#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "api/http_message.hpp"

// Where others look on or add to what the server says, without api knowing them; cli wires them.
namespace daiv::api {

// One answered request. All of it is valid during the call alone.
struct FinishedRequest {
  std::string_view id;
  std::string_view method;
  std::string_view route;  // the path's template; "-" where none matched
  std::string_view session;
  int status = 0;  // 0: the client went away
  std::chrono::system_clock::time_point start;
  std::chrono::nanoseconds duration{0};
  std::string_view client_address;
  const HeaderFields& fields;  // the request's; the key among them
};

class RequestObserver {
public:
  virtual ~RequestObserver() = default;
  // Called on the io thread after the answer, for every request but health checks; must not block.
  virtual void finished(const FinishedRequest& request) noexcept = 0;
};

struct Extensions {
  RequestObserver* observer = nullptr;  // may be empty; outlives the server
  // Further metrics, in the text exposition format; may be empty.
  std::function<std::string()> more_metrics = {};
};

}  // namespace daiv::api
