#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "images/http_transfer.hpp"

namespace daiv::images {

// When a failed request is worth another one, and after how long a wait. Pure.
struct RetryPolicy {
  int max_retries = 5;          // in a row without progress, after an answer or a broken connection
  int max_connect_retries = 2;  // where nobody answers at all
  std::chrono::milliseconds first_delay{250};
  std::chrono::milliseconds longest_delay{8'000};
  std::chrono::milliseconds longest_retry_after{60'000};
};

enum class RetryVerdict { retry, give_up };

struct RetryDecision {
  RetryVerdict verdict = RetryVerdict::give_up;
  std::chrono::milliseconds delay{0};
};

// Whether to repeat after `result`, where `failures` (from 1) happened in a row, this one included.
// A Retry-After longer than the policy's longest is not waited for: give_up. `spread` in [0, 1)
// varies the delay by up to a quarter, so that clients that failed together don't come back
// together.
RetryDecision decide_retry(const RetryPolicy& policy, const HttpResult& result, int failures,
                           double spread, std::chrono::system_clock::time_point now);

// The value of Retry-After: seconds or an HTTP date (RFC 9110 §10.2.3); empty where it is neither.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view value,
                                                      std::chrono::system_clock::time_point now);

}  // namespace daiv::images
