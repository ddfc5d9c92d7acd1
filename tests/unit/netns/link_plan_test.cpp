#include "netns/link_plan.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace daiv::netns {
namespace {

TEST(Subnet, IsReadFromItsUsualForm) {
  EXPECT_EQ(parse_subnet("100.124.0.0/14"), (Subnet{0x647c0000, 14}));
  EXPECT_EQ(parse_subnet("10.0.0.4/30"), (Subnet{0x0a000004, 30}));
  EXPECT_EQ(parse_subnet(default_subnet), (Subnet{0x647c0000, 14}));
}

TEST(Subnet, IsNothingElse) {
  for (const char* text :
       {"", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/31", "10.0.0.0/-1", "10.0.0.0/8 ", "10.0.0/8",
        "10.0.0.1/8", "::1/64", "10.0.0.0/08x", " 10.0.0.0/8", "10.0.0.0/8/8"})
    EXPECT_FALSE(parse_subnet(text)) << text;
}

TEST(Subnet, LiesNowhereWhereNoHostMayBe) {
  for (const char* text : {"127.0.0.0/8", "127.1.0.0/16", "169.254.0.0/16", "169.254.169.0/24",
                           "0.0.0.0/8", "0.0.0.0/0", "224.0.0.0/4", "240.0.0.0/4", "96.0.0.0/2"})
    EXPECT_FALSE(parse_subnet(text)) << text;
}

TEST(LinkPlan, HasTwoAddressesOfItsOwn) {
  const Subnet subnet = *parse_subnet("10.9.0.0/24");
  std::set<std::uint32_t> seen;
  for (std::uint32_t index = 0; index < 64; ++index) {
    const auto link = plan_link(subnet, index);
    ASSERT_TRUE(link);
    for (const std::uint32_t address : {link->proxy, link->sandbox}) {
      EXPECT_TRUE(seen.insert(address).second);
      EXPECT_EQ(address & 0xffffff00U, 0x0a090000U);
      EXPECT_NE(address & 0xffU, 0U);
      EXPECT_NE(address & 0xffU, 0xffU);
    }
  }
}

TEST(LinkPlan, BeyondTheSubnetIsNone) {
  EXPECT_TRUE(plan_link({0x0a000000, 30}, 0));
  EXPECT_FALSE(plan_link({0x0a000000, 30}, 1));
  EXPECT_FALSE(plan_link({0x0a000000, 24}, 64));
  EXPECT_TRUE(plan_link(*parse_subnet(default_subnet), 65535));
  EXPECT_FALSE(plan_link(*parse_subnet(default_subnet), 65536));
  EXPECT_FALSE(plan_link({0, 1}, 0xffffffffU));
}

TEST(Address, IsWrittenAsPeopleDo) { EXPECT_EQ(format_address(0x647c0001), "100.124.0.1"); }

}  // namespace
}  // namespace daiv::netns
