#include "netns/transparent_plan.hpp"

#include <gtest/gtest.h>

#include <string>

namespace daiv::netns {
namespace {

TEST(TransparentPlan, EndsInWhatIsUnreachable) {
  const auto rules = plan_rules({0x647c0001, 0x647c0002});
  ASSERT_FALSE(rules.empty());
  EXPECT_EQ(rules.front(), (RouteRule{100, Subnet{0x647c0001, 32}, 0, RouteRule::Verdict::routed}));
  const RouteRule& last = rules.back();
  EXPECT_FALSE(last.to);
  EXPECT_EQ(last.tcp_port, 0);
  EXPECT_EQ(last.verdict, RouteRule::Verdict::unreachable);
}

// What is asked before the kernel's own table of all routes (priority 32766).
TEST(TransparentPlan, ComesBeforeTheKernelsOwnRules) {
  std::uint32_t previous = 0;
  for (const RouteRule& rule : plan_rules({0x647c0001, 0x647c0002})) {
    EXPECT_GT(rule.priority, previous);
    EXPECT_LT(rule.priority, 32766U);
    previous = rule.priority;
  }
}

TEST(TransparentPlan, PoolNeverOverlapsTheLinks) {
  for (unsigned prefix = 1; prefix <= 30; ++prefix) {
    for (const char* inside : {"100.124.0.0", "100.112.0.0", "172.30.0.0", "10.254.0.0",
                               "198.18.0.0", "64.0.0.0", "96.0.0.0", "8.0.0.0", "160.0.0.0"}) {
      const auto address = parse_subnet(std::string(inside) + "/30");
      ASSERT_TRUE(address) << inside;
      const std::uint32_t mask = ~std::uint32_t{0} << (32U - prefix);
      const auto subnet =
          parse_subnet(format_address(address->address & mask) + "/" + std::to_string(prefix));
      if (!subnet) continue;  // no operator can have it
      EXPECT_FALSE(overlap(plan_synthetic_pool(*subnet), *subnet)) << inside << prefix;
    }
  }
}

}  // namespace
}  // namespace daiv::netns
