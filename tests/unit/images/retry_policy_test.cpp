#include "images/retry_policy.hpp"

#include <gtest/gtest.h>

namespace daiv::images {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const auto now = std::chrono::system_clock::from_time_t(
    784111777);  // Sun, 06 Nov 1994 08:49:37 GMT (RFC 9110 §5.6.7)

HttpResult answered(int status, std::vector<std::pair<std::string, std::string>> fields = {}) {
  return {.end = TransferEnd::complete, .head = {.status = status, .fields = std::move(fields)}};
}

RetryDecision decide(const HttpResult& result, int failures, double spread = 0) {
  return decide_retry(RetryPolicy{}, result, failures, spread, now);
}

TEST(RetryPolicy, DelaysDoubleUpToALimitAndEnd) {
  std::vector<long> delays;
  for (int failures = 1; failures <= 5; ++failures)
    delays.push_back(decide(answered(503), failures).delay.count());
  EXPECT_EQ(delays, (std::vector<long>{250, 500, 1000, 2000, 4000}));
  EXPECT_EQ(decide(answered(503), 6).verdict, RetryVerdict::give_up);
  EXPECT_EQ(decide_retry({.max_retries = 99}, answered(503), 50, 0, now).delay, milliseconds(8000));
  EXPECT_EQ(decide(answered(503), 1, 0.999).delay, milliseconds(312));
}

TEST(RetryPolicy, OnlyWhatMayClearIsRepeated) {
  for (const int status : {408, 429, 500, 502, 503, 504})
    EXPECT_EQ(decide(answered(status), 1).verdict, RetryVerdict::retry);
  for (const int status : {200, 400, 401, 403, 404, 416, 501}) {
    EXPECT_EQ(decide(answered(status), 1).verdict, RetryVerdict::give_up) << status;
  }
  for (const auto end : {TransferEnd::cut, TransferEnd::not_connected, TransferEnd::not_resolved}) {
    EXPECT_EQ(decide({.end = end, .head = {}}, 1).verdict, RetryVerdict::retry);
  }
  for (const auto end : {TransferEnd::certificate_refused, TransferEnd::no_tls,
                         TransferEnd::stalled, TransferEnd::malformed, TransferEnd::cancelled}) {
    EXPECT_EQ(decide({.end = end, .head = {}}, 1).verdict, RetryVerdict::give_up);
  }
  EXPECT_EQ(decide({.end = TransferEnd::not_connected, .head = {}}, 3).verdict,
            RetryVerdict::give_up);
}

TEST(RetryPolicy, RetryAfterIsObeyedWithinReason) {
  EXPECT_EQ(decide(answered(429, {{"retry-after", "7"}}), 1).delay, milliseconds(7000));
  EXPECT_EQ(decide(answered(429, {{"retry-after", "0"}}), 1).delay, milliseconds(250));
  EXPECT_EQ(decide(answered(429, {{"retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"}}), 1).delay,
            milliseconds(10'000));
  EXPECT_EQ(decide(answered(429, {{"retry-after", "61"}}), 1).verdict, RetryVerdict::give_up);
  EXPECT_EQ(decide(answered(429, {{"retry-after", "99999999999999999999999"}}), 1).verdict,
            RetryVerdict::give_up);
  EXPECT_EQ(decide(answered(429, {{"retry-after", "soon"}}), 1).delay, milliseconds(250));
  EXPECT_EQ(decide(answered(429, {{"retry-after", "-5"}}), 1).delay, milliseconds(250));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:00 GMT", now), seconds(0));
}

}  // namespace
}  // namespace daiv::images
