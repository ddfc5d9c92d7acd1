#include "proxy/policy.hpp"

#include <gtest/gtest.h>

namespace daiv::proxy {
namespace {

HostName host(const char* text) { return *HostName::parse(text); }

Rule rule(const char* glob, std::vector<std::string> methods = {},
          std::optional<std::string> inject = {}) {
  return {HostGlob(glob), std::move(methods), std::move(inject)};
}

Policy policy(Default fallback, Intercept intercept, std::vector<Rule> rules) {
  return {fallback,
          intercept,
          std::move(rules),
          {{"gh", {"Authorization", "Bearer x"}}, {"w", {"X-Write", "y"}}}};
}

TEST(Connect, UnlistedHostIsRefusedUnderDenyAndLetThroughUnderAllow) {
  const auto deny = policy(Default::deny, Intercept::all, {rule("a.test")});
  EXPECT_FALSE(judge_connect(deny, host("b.test"), 443).allowed);
  const auto allow = policy(Default::allow, Intercept::credentialed, {});
  EXPECT_TRUE(judge_connect(allow, host("b.test"), 443).allowed);
  EXPECT_FALSE(judge_connect(allow, host("b.test"), 443).intercepted);
}

TEST(Connect, OnlyHostsThatInjectOrLimitMethodsAreIntercepted) {
  const auto rules =
      policy(Default::deny, Intercept::credentialed,
             {rule("plain.test"), rule("cred.test", {}, "gh"), rule("limited.test", {"GET"})});
  EXPECT_FALSE(judge_connect(rules, host("plain.test"), 443).intercepted);
  EXPECT_TRUE(judge_connect(rules, host("cred.test"), 443).intercepted);
  EXPECT_TRUE(judge_connect(rules, host("limited.test"), 443).intercepted);
}

TEST(Connect, TheFirstRuleThatNamesTheHostSaysWhetherItIsIntercepted) {
  const auto rules =
      policy(Default::deny, Intercept::credentialed, {rule("*.test"), rule("cred.test", {}, "gh")});
  EXPECT_FALSE(judge_connect(rules, host("cred.test"), 443).intercepted);
}

TEST(Request, EachMethodFindsItsOwnRuleAndSecret) {
  const auto rules = policy(Default::deny, Intercept::credentialed,
                            {rule("a.test", {"GET"}, "gh"), rule("a.test", {"POST"}, "w")});
  EXPECT_EQ(judge_request(rules, host("a.test"), 443, "GET").secret->header, "Authorization");
  EXPECT_EQ(judge_request(rules, host("a.test"), 443, "post").secret->header, "X-Write");
  const auto head = judge_request(rules, host("a.test"), 443, "HEAD");
  EXPECT_FALSE(head.allowed);
  EXPECT_EQ(head.reason, Reason::method_not_listed);
}

TEST(Request, AListedHostWithoutTheMethodIsRefusedEvenUnderAllow) {
  const auto rules = policy(Default::allow, Intercept::all, {rule("a.test", {"GET"})});
  EXPECT_FALSE(judge_request(rules, host("a.test"), 443, "DELETE").allowed);
  EXPECT_TRUE(judge_request(rules, host("b.test"), 443, "DELETE").allowed);
}

TEST(Request, ATrailingDotOrAnotherCaseIsNoWayRoundARule) {
  const auto rules = policy(Default::allow, Intercept::all, {rule("a.test", {"GET"})});
  EXPECT_FALSE(judge_request(rules, host("A.TEST."), 443, "PUT").allowed);
}

TEST(Request, ARuleWhoseSecretIsMissingLetsNothingThrough) {
  const auto rules = policy(Default::allow, Intercept::all, {rule("a.test", {}, "nobody")});
  EXPECT_FALSE(judge_request(rules, host("a.test"), 443, "GET").allowed);
}

TEST(Request, APortInARuleLimitsItToThatPort) {
  const auto rules = policy(Default::deny, Intercept::all, {rule("a.test:8443", {}, "gh")});
  EXPECT_TRUE(judge_request(rules, host("a.test"), 8443, "GET").allowed);
  EXPECT_FALSE(judge_request(rules, host("a.test"), 443, "GET").allowed);
}

TEST(Reason, IsWrittenForAPerson) {
  EXPECT_EQ(describe(Reason::host_not_listed, host("a.test"), "GET"), "no rule lists a.test");
  EXPECT_EQ(describe(Reason::method_not_listed, host("a.test"), "PUT"),
            "no rule for a.test lists the method PUT");
}

}  // namespace
}  // namespace daiv::proxy
