#include "proxy/host_name.hpp"

#include <gtest/gtest.h>

namespace daiv::proxy {
namespace {

using namespace std::string_view_literals;

struct Spelling {
  std::string_view text;
  const char* canonical;
};

class Spellings : public testing::TestWithParam<Spelling> {};

TEST_P(Spellings, OfOneHostAreEqual) {
  const auto host = HostName::parse(GetParam().text);
  ASSERT_TRUE(host);
  EXPECT_EQ(host->text(), GetParam().canonical);
}

INSTANTIATE_TEST_SUITE_P(Table, Spellings,
                         testing::Values(Spelling{"Example.TEST", "example.test"},
                                         Spelling{"example.test.", "example.test"},
                                         Spelling{"b\xc3\xbc"
                                                  "cher.test",
                                                  "xn--bcher-kva.test"},
                                         Spelling{"XN--bcher-kva.test", "xn--bcher-kva.test"},
                                         Spelling{"a_b.test", "a_b.test"},
                                         Spelling{"198.18.0.1", "198.18.0.1"},
                                         Spelling{"198.18.0.1.", "198.18.0.1"},
                                         Spelling{"[2001:DB8::0:1]", "2001:db8::1"},
                                         Spelling{"2001:db8::1", "2001:db8::1"},
                                         Spelling{"localhost", "localhost"}));

class NoHost : public testing::TestWithParam<std::string_view> {};

TEST_P(NoHost, IsRefused) { EXPECT_FALSE(HostName::parse(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, NoHost,
                         testing::Values(""sv, "."sv, "a..b"sv, ".a"sv, "a b"sv, "a\tb"sv, "a\0b"sv,
                                         "user@a"sv, "a/b"sv, "a%41"sv, "fe80::1%eth0"sv, "[::1"sv,
                                         "[127.0.0.1]"sv, "127.1"sv, "0x7f000001"sv, "2130706433"sv,
                                         "1.2.3.0x4"sv, "a:80"sv, "\xff\xfe"sv));

TEST(HostName, OverlongLabelsAndNamesAreRefused) {
  EXPECT_FALSE(HostName::parse(std::string(64, 'a') + ".test"));
  EXPECT_TRUE(HostName::parse(std::string(63, 'a') + ".test"));
  std::string name;
  for (int count = 0; count < 64; ++count) name += "abc.";
  EXPECT_FALSE(HostName::parse(name));
}

TEST(HostName, Ipv6HasBracketsInAUrl) {
  EXPECT_EQ(HostName::parse("2001:db8::1")->in_url(), "[2001:db8::1]");
  EXPECT_EQ(HostName::parse("198.18.0.1")->in_url(), "198.18.0.1");
}

}  // namespace
}  // namespace daiv::proxy
