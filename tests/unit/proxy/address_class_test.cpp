#include "proxy/address_class.hpp"

#include <gtest/gtest.h>

namespace daiv::proxy {
namespace {

namespace ip = boost::asio::ip;

ip::address address(const char* text) { return ip::make_address(text); }
bool nobody(const ip::address&) { return false; }

class Forbidden : public testing::TestWithParam<const char*> {};
TEST_P(Forbidden, IsNeverReachedByAName) {
  const Rule rule{HostGlob("name.test"), {}, {}};
  EXPECT_EQ(judge_address(address(GetParam()), &rule, nobody), AddressVerdict::forbidden);
  EXPECT_FALSE(forbidden_name(address(GetParam())).empty());
}
INSTANTIATE_TEST_SUITE_P(Table, Forbidden,
                         testing::Values("127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254",
                                         "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1",
                                         "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
                                         "2002:7f00:1::", "::127.0.0.1", "::ffff:169.254.169.254"));

class Private : public testing::TestWithParam<const char*> {};
TEST_P(Private, IsReachedOnlyWhereARuleNamesTheHost) {
  const Rule named{HostGlob("*.corp.test"), {}, {}};
  const Rule wide{HostGlob("*"), {}, {}};
  EXPECT_EQ(judge_address(address(GetParam()), &named, nobody), AddressVerdict::allowed);
  EXPECT_EQ(judge_address(address(GetParam()), &wide, nobody), AddressVerdict::private_not_named);
  EXPECT_EQ(judge_address(address(GetParam()), nullptr, nobody), AddressVerdict::private_not_named);
}
INSTANTIATE_TEST_SUITE_P(Table, Private,
                         testing::Values("10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
                                         "100.64.0.1", "fd00::1", "::ffff:10.0.0.1"));

TEST(Address, GlobalOnesAreReachedByDefault) {
  EXPECT_EQ(judge_address(address("172.32.0.1"), nullptr, nobody), AddressVerdict::allowed);
  EXPECT_EQ(judge_address(address("2606:4700::1"), nullptr, nobody), AddressVerdict::allowed);
}

TEST(Address, ARuleWithTheLiteralAddressOpensIt) {
  const Rule rule{HostGlob("169.254.169.254"), {}, {}};
  EXPECT_EQ(judge_address(address("169.254.169.254"), &rule, nobody), AddressVerdict::allowed);
}

TEST(Address, OneOfThisHostIsForbiddenInEverySpelling) {
  const auto own = [](const ip::address& candidate) { return candidate == address("203.0.113.9"); };
  EXPECT_EQ(judge_address(address("203.0.113.9"), nullptr, own), AddressVerdict::forbidden);
  EXPECT_EQ(judge_address(address("::ffff:203.0.113.9"), nullptr, own), AddressVerdict::forbidden);
}

}  // namespace
}  // namespace daiv::proxy
