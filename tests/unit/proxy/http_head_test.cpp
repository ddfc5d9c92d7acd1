#include "proxy/http_head.hpp"

#include <gtest/gtest.h>

namespace daiv::proxy {
namespace {

using namespace std::string_literals;

TEST(RequestHead, KeepsSpellingAndOrder) {
  const auto head =
      parse_request_head("GET /a?b HTTP/1.1\r\nhOST: x.test\r\nX-One:  1 \r\nx-one:2\r\n\r\n");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->method, "GET");
  EXPECT_EQ(to_text(*head), "GET /a?b HTTP/1.1\r\nhOST: x.test\r\nX-One: 1\r\nx-one: 2\r\n\r\n");
}

TEST(RequestHead, AnyTokenIsAMethod) {
  EXPECT_TRUE(parse_request_head("M-SEARCH * HTTP/1.1\r\nHost: a\r\n\r\n"));
}

class Malformed : public testing::TestWithParam<std::string> {};
TEST_P(Malformed, IsRefused) {
  const auto head = parse_request_head(GetParam());
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().status, 400);
}
INSTANTIATE_TEST_SUITE_P(
    Table, Malformed,
    testing::Values("GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1 \r\n\r\n", "GET /\r\n\r\n",
                    "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/0.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n",
                    "GET /\tx HTTP/1.1\r\n\r\n", "G ET / HTTP/1.1\r\n\r\n",
                    "GET /\xc3\xa9 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nA : b\r\n\r\n",
                    "GET / HTTP/1.1\r\n A: b\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
                    "GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", "GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
                    "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n"s, "GET / HTTP/1.1\r\nA\r\n\r\n",
                    "GET / HTTP/1.1\r\n: b\r\n\r\n", "GET / HTTP/1.1\nA: b\r\n\r\n",
                    "\r\nGET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n"));

TEST(HeadEnd, IsFoundOnlyWhenWhole) {
  const std::string head = "GET / HTTP/1.1\r\nA: b\r\n\r\n";
  for (std::size_t size = 1; size < head.size(); ++size)
    EXPECT_EQ(find_head_end(std::string_view(head).substr(0, size)).value(), 0U);
  EXPECT_EQ(find_head_end(head + "body").value(), head.size());
}

TEST(HeadEnd, AboveTheLimitIs431And60KiBPass) {
  EXPECT_EQ(
      find_head_end("GET / HTTP/1.1\r\nA: " + std::string(max_head_bytes, 'x')).error().status,
      431);
  const auto head = "GET / HTTP/1.1\r\nA: " + std::string(60U << 10, 'x') + "\r\n\r\n";
  EXPECT_EQ(find_head_end(head).value(), head.size());
}

TEST(RequestHead, TooManyFieldsAre431) {
  std::string head = "GET / HTTP/1.1\r\n";
  for (int count = 0; count < 5000; ++count) head += "A: b\r\n";
  EXPECT_EQ(parse_request_head(head + "\r\n").error().status, 431);
}

struct Framing {
  const char* fields;
  bool accepted;
  BodyFraming::Kind kind = BodyFraming::Kind::none;
};

class RequestBody : public testing::TestWithParam<Framing> {};
TEST_P(RequestBody, IsFramedInOneWayOrRefused) {
  const auto head =
      parse_request_head("POST / HTTP/1.1\r\nHost: a\r\n"s + GetParam().fields + "\r\n");
  ASSERT_TRUE(head);
  const auto framing = plan_request_body(*head);
  ASSERT_EQ(framing.has_value(), GetParam().accepted) << GetParam().fields;
  if (framing) {
    EXPECT_EQ(framing->kind, GetParam().kind);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Table, RequestBody,
    testing::Values(
        Framing{"", true}, Framing{"Content-Length: 5\r\n", true, BodyFraming::Kind::length},
        Framing{"Transfer-Encoding: Chunked\r\n", true, BodyFraming::Kind::chunked},
        Framing{"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", false},
        Framing{"Content-Length: 5\r\nContent-Length: 6\r\n", false},
        Framing{"Content-Length: 5\r\nContent-Length: 5\r\n", false},
        Framing{"Content-Length: 5, 5\r\n", false}, Framing{"Content-Length: +5\r\n", false},
        Framing{"Content-Length: -5\r\n", false}, Framing{"Content-Length: 0x5\r\n", false},
        Framing{"Content-Length: \r\n", false},
        Framing{"Content-Length: 99999999999999999999\r\n", false},
        Framing{"Transfer-Encoding: xchunked\r\n", false},
        Framing{"Transfer-Encoding: chunked, identity\r\n", false},
        Framing{"Transfer-Encoding: gzip, chunked\r\n", false},
        Framing{"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", false}));

TEST(ResponseBody, DependsOnStatusAndMethod) {
  const auto kind = [](const char* text, const char* method) {
    return plan_response_body(parse_response_head(text).value(), method)->kind;
  };
  EXPECT_EQ(kind("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET"), BodyFraming::Kind::length);
  EXPECT_EQ(kind("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD"), BodyFraming::Kind::none);
  EXPECT_EQ(kind("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET"),
            BodyFraming::Kind::none);
  EXPECT_EQ(kind("HTTP/1.1 204 No Content\r\n\r\n", "GET"), BodyFraming::Kind::none);
  EXPECT_EQ(kind("HTTP/1.1 200\r\n\r\n", "GET"), BodyFraming::Kind::until_close);
}

TEST(ResponseBody, AnAmbiguousOriginIsABadGateway) {
  const auto head =
      parse_response_head(
          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
          .value();
  EXPECT_EQ(plan_response_body(head, "GET").error().status, 502);
  EXPECT_EQ(parse_response_head("garbage\r\n\r\n").error().status, 502);
}

TEST(Lists, AreReadOverAllFieldsOfTheName) {
  const auto head =
      parse_request_head("GET / HTTP/1.1\r\nConnection: A, b\r\nconnection: ,C ,\r\n\r\n").value();
  EXPECT_EQ(list_of(head.fields, "Connection"), (std::vector<std::string>{"a", "b", "c"}));
}

}  // namespace
}  // namespace daiv::proxy
