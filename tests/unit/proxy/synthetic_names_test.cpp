#include "proxy/synthetic_names.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace daiv::proxy {
namespace {

constexpr std::uint32_t pool = 0x64700000;

HostName host(const std::string& name) { return HostName::parse(name).value(); }

TEST(SyntheticNames, StandForOneNameEach) {
  SyntheticNames names(pool);
  std::set<std::uint32_t> addresses;
  for (int number = 0; number < 500; ++number) {
    const HostName name = host(fmt::format("host{}.test", number));
    const std::uint32_t address = names.address_of(name);
    EXPECT_EQ(address & 0xffff0000U, pool);
    EXPECT_NE(address & 0xffU, 0U);
    EXPECT_NE(address & 0xffU, 0xffU);
    EXPECT_TRUE(addresses.insert(address).second);
    EXPECT_EQ(names.name_of(address), name);
    EXPECT_EQ(names.address_of(name), address);
  }
}

TEST(SyntheticNames, AreTheSameAfterARestart) {
  SyntheticNames first(pool);
  SyntheticNames second(pool);
  second.address_of(host("other.test"));
  EXPECT_EQ(first.address_of(host("allowed.test")), second.address_of(host("allowed.test")));
}

TEST(SyntheticNames, AreBounded) {
  SyntheticNames names(pool);
  const HostName kept = host("kept.test");
  const std::uint32_t address = names.address_of(kept);
  std::uint32_t first = 0;
  for (std::size_t number = 0; number < 4 * max_synthetic_names; ++number) {
    const std::uint32_t given = names.address_of(host(fmt::format("host{}.test", number)));
    if (number == 0) first = given;
    ASSERT_LE(names.size(), max_synthetic_names);
    ASSERT_EQ(names.name_of(address), kept);  // used, so it stays
  }
  const auto stands_for = names.name_of(first);
  EXPECT_TRUE(!stands_for || *stands_for != host("host0.test"));
}

TEST(SyntheticNames, AreNobodysBeforeTheyAreAskedFor) {
  SyntheticNames names(pool);
  EXPECT_FALSE(names.name_of(pool + 1));
  EXPECT_FALSE(names.name_of(0x08080808));
}

}  // namespace
}  // namespace daiv::proxy
