#include "proxy/host_glob.hpp"

#include <gtest/gtest.h>

namespace daiv::proxy {
namespace {

struct Match {
  const char* glob;
  const char* host;
  std::uint16_t port;
  bool matches;
};

class Matches : public testing::TestWithParam<Match> {};

TEST_P(Matches, AsTheTableSays) {
  const auto& [glob, host, port, matches] = GetParam();
  EXPECT_EQ(HostGlob(glob).matches(*HostName::parse(host), port), matches) << glob << ' ' << host;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Matches,
    testing::Values(
        Match{"*.x.test", "a.b.x.test", 443, true}, Match{"*.x.test", "x.test", 443, false},
        Match{"*.X.Test", "a.x.TEST", 443, true}, Match{"x.test.", "x.test", 443, true},
        Match{"x.test", "x.test.", 443, true}, Match{"x.test", "ax.test", 443, false},
        Match{"x.test", "x.testa", 443, false}, Match{"?.test", "a.test", 1, true},
        Match{"?.test", "ab.test", 1, false}, Match{"[ab].test", "b.test", 1, true},
        Match{"[ab].test", "c.test", 1, false}, Match{"[!ab].test", "c.test", 1, true},
        Match{"[a-c]x.test", "bx.test", 1, true}, Match{"[\xc3\xa9-z].test", "b.test", 1, false},
        Match{"*", "anything.test", 1, true}, Match{"x.test:8443", "x.test", 8443, true},
        Match{"x.test:8443", "x.test", 443, false}, Match{"*.test:443", "a.test", 443, true},
        Match{"2001:db8::1", "2001:db8::1", 443, true},
        Match{"[2001:db8::1]", "2001:db8::1", 443, true},
        Match{"[2001:db8::1]:443", "2001:db8::1", 80, false},
        Match{"b\xc3\xbc"
              "cher.test",
              "xn--bcher-kva.test", 443, true},
        Match{"*.b\xc3\xbc"
              "cher.test",
              "a.xn--bcher-kva.test", 443, true},
        Match{"198.18.0.1", "198.18.0.1", 443, true}));

TEST(HostGlob, ManyStarsDoNotTakeExponentialTime) {
  std::string pattern;
  for (int count = 0; count < 60; ++count) pattern += "*a";
  EXPECT_FALSE(HostGlob(pattern + "b").matches(*HostName::parse(std::string(60, 'a')), 443));
}

TEST(HostGlob, OnlyNamesAndGlobsWithALiteralDomainNameTheirHosts) {
  EXPECT_TRUE(HostGlob("forge.corp.test").names_its_hosts());
  EXPECT_TRUE(HostGlob("*.corp.test").names_its_hosts());
  EXPECT_TRUE(HostGlob("git[12].corp.test").names_its_hosts());
  EXPECT_FALSE(HostGlob("*").names_its_hosts());
  EXPECT_FALSE(HostGlob("corp.*").names_its_hosts());
  EXPECT_FALSE(HostGlob("*test").names_its_hosts());
}

}  // namespace
}  // namespace daiv::proxy
