#include "proxy/request_target.hpp"

#include <gtest/gtest.h>

namespace daiv::proxy {
namespace {

RequestHead head(const std::string& text) { return parse_request_head(text).value(); }

TEST(ConnectTarget, IsHostAndPort) {
  EXPECT_EQ(parse_connect_target("A.test.:443")->host.text(), "a.test");
  EXPECT_EQ(parse_connect_target("[2001:db8::1]:8443")->port, 8443);
}

class BadConnect : public testing::TestWithParam<const char*> {};
TEST_P(BadConnect, IsRefused) { EXPECT_EQ(parse_connect_target(GetParam()).error().status, 400); }
INSTANTIATE_TEST_SUITE_P(Table, BadConnect,
                         testing::Values("a.test", "a.test:", "a.test:0", "a.test:65536",
                                         "a.test:443/", "u@a.test:443", ":443", "a.test:443:1",
                                         "2001:db8::1:443", "https://a.test:443", "a.test:+1"));

TEST(Destination, ComesFromAnAbsoluteTarget) {
  const auto found = find_destination(
      head("GET http://A.test:8080/p?q HTTP/1.1\r\nHost: a.test:8080\r\n\r\n"), Scheme::http);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->authority.host.text(), "a.test");
  EXPECT_EQ(found->authority.port, 8080);
  EXPECT_EQ(found->path, "/p?q");
  EXPECT_EQ(
      find_destination(head("GET http://a.test?q HTTP/1.1\r\nHost: a.test\r\n\r\n"), Scheme::http)
          ->path,
      "/?q");
  EXPECT_EQ(
      find_destination(head("GET https://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n"), Scheme::http)
          ->authority.port,
      443);
}

TEST(Destination, ComesFromTheHostFieldOtherwise) {
  const auto found =
      find_destination(head("GET /p HTTP/1.1\r\nHost: a.test\r\n\r\n"), Scheme::https);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->authority.port, 443);
}

TEST(Destination, AHostThatIsNotTheTargetsIsRefused) {
  for (const char* host : {"cred.test", "denied.test:81", "denied.test.evil"})
    EXPECT_EQ(
        find_destination(
            head("GET http://denied.test/ HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"),
            Scheme::http)
            .error()
            .status,
        403);
}

TEST(Destination, AnotherSpellingOfTheSameHostIsNotAnother) {
  EXPECT_TRUE(find_destination(head("GET http://a.test/ HTTP/1.1\r\nHost: A.TEST.:80\r\n\r\n"),
                               Scheme::http));
}

class BadTarget : public testing::TestWithParam<const char*> {};
TEST_P(BadTarget, IsRefused) {
  EXPECT_EQ(find_destination(head(GetParam()), Scheme::http).error().status, 400);
}
INSTANTIATE_TEST_SUITE_P(
    Table, BadTarget,
    testing::Values("GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
                    "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
                    "GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                    "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
                    "GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n"));

}  // namespace
}  // namespace daiv::proxy
