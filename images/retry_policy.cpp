#include "images/retry_policy.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace daiv::images {
namespace {

bool is_transient_status(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

int allowed_failures(const RetryPolicy& policy, const HttpResult& result) {
  switch (result.end) {
    case TransferEnd::complete:
    case TransferEnd::stopped:
      return is_transient_status(result.head.status) ? policy.max_retries : 0;
    case TransferEnd::cut:
      return policy.max_retries;
    case TransferEnd::not_resolved:
    case TransferEnd::not_connected:
      return policy.max_connect_retries;
    case TransferEnd::no_tls:
    case TransferEnd::certificate_refused:
    // A stall has already taken the whole patience.
    case TransferEnd::stalled:
    case TransferEnd::malformed:
    case TransferEnd::cancelled:
      return 0;
  }
  return 0;
}

}  // namespace

RetryDecision decide_retry(const RetryPolicy& policy, const HttpResult& result, int failures,
                           double spread, std::chrono::system_clock::time_point now) {
  if (failures > allowed_failures(policy, result)) return {};
  auto delay = policy.first_delay;
  for (int step = 1; step < failures && delay < policy.longest_delay; ++step) delay *= 2;
  delay = std::min(delay, policy.longest_delay);
  delay += std::chrono::milliseconds(
      static_cast<long>(static_cast<double>(delay.count()) * 0.25 * spread));

  if (const auto field = result.head.find("retry-after")) {
    if (const auto wanted = parse_retry_after(*field, now)) {
      if (*wanted > policy.longest_retry_after) return {};
      delay = std::max(delay, std::chrono::milliseconds(*wanted));
    }
  }
  return {.verdict = RetryVerdict::retry, .delay = delay};
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view value,
                                                      std::chrono::system_clock::time_point now) {
  // A year is for ever; it keeps the arithmetic away from overflow.
  constexpr std::int64_t longest = 365L * 24 * 3600;
  std::int64_t seconds = 0;
  const auto* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, seconds);
  if (stop == end && error == std::errc::result_out_of_range) return std::chrono::seconds(longest);
  if (error != std::errc{} || stop != end) {
    const auto date = curl_getdate(std::string(value).c_str(), nullptr);
    if (date < 0) return std::nullopt;
    seconds = date - std::chrono::system_clock::to_time_t(now);
  } else if (seconds < 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, longest));
}

}  // namespace daiv::images
