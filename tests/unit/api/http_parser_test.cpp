#include "api/http_parser.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace daiv::api {
namespace {

struct Parsed {
  int status = 0;  // of the fault; 0: none
  RequestHead head;
  std::string body;
  bool done = false;
  std::size_t left = 0;
};

// Feeds `bytes` in pieces of `step`, as a connection does.
Parsed parse(std::string_view bytes, std::size_t step, HeadLimits limits = {}) {
  RequestParser parser(limits);
  Parsed out;
  std::string buffer;
  while (!parser.done()) {
    const auto used = parser.feed(buffer, out.body);
    if (!used) {
      out.status = used.error().status;
      return out;
    }
    buffer.erase(0, *used);
    if (*used > 0) continue;
    if (bytes.empty()) break;
    buffer += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
  }
  if (parser.head_done()) out.head = parser.head();
  out.done = parser.done();
  out.left = buffer.size() + bytes.size();
  return out;
}

TEST(HttpParser, ReadsARequestHoweverItIsCut) {
  const std::string request =
      "\r\n\r\n\r\nPOST /a?b HTTP/1.1\r\nHost: h\r\nX-Two:  spaced \r\ncontent-length: "
      "5\r\n\r\nhello";
  for (std::size_t step = 1; step <= request.size(); ++step) {
    const Parsed parsed = parse(request, step);
    ASSERT_EQ(parsed.status, 0) << step;
    EXPECT_TRUE(parsed.done);
    EXPECT_EQ(parsed.head.method, "POST");
    EXPECT_EQ(parsed.head.target, "/a?b");
    EXPECT_EQ(parsed.head.find("x-two"), "spaced");
    EXPECT_EQ(parsed.head.content_length, 5U);
    EXPECT_TRUE(parsed.head.keep_alive);
    EXPECT_EQ(parsed.body, "hello");
  }
}

TEST(HttpParser, ReadsChunksHoweverTheyAreCut) {
  const std::string request =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n, "
      "chunked!\r\n0\r\n"
      "X-API-Key: trailer\r\nContent-Length: 3\r\n\r\n";
  for (std::size_t step = 1; step <= request.size(); ++step) {
    const Parsed parsed = parse(request, step);
    ASSERT_EQ(parsed.status, 0) << step;
    EXPECT_TRUE(parsed.done) << step;
    EXPECT_EQ(parsed.body, "hello, chunked!") << step;
    // A trailer is no header field.
    EXPECT_EQ(parsed.head.find("X-API-Key"), std::nullopt);
  }
}

TEST(HttpParser, LeavesAPipelinedRequest) {
  const std::string first = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
  const Parsed parsed = parse(first + "GET / HTTP/1.1\r\n", 1000);
  EXPECT_TRUE(parsed.done);
  EXPECT_EQ(parsed.body, "hi");
  EXPECT_EQ(parsed.left, 16U);
}

TEST(HttpParser, RefusesWhatOthersMightReadDifferently) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const std::string& request : {
           start + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
           start + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
           start + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
           start + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
           start + "Content-Length: 5, 5\r\n\r\n",
           start + "Content-Length: +5\r\n\r\n",
           start + "Content-Length: -5\r\n\r\n",
           start + "Content-Length: 0x5\r\n\r\n",
           start + "Content-Length: 5 5\r\n\r\n",
           start + "Content-Length: \r\n\r\n",
           start + "Content-Length: 99999999999999999999\r\n\r\n",
           start + "Transfer-Encoding: xchunked\r\n\r\n",
           start + "Transfer-Encoding: chunked, identity\r\n\r\n",
           start + "Transfer-Encoding: gzip, chunked\r\n\r\n",
           start + "Transfer-Encoding: identity\r\n\r\n",
           start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
           start + "Transfer-Encoding : chunked\r\n\r\n",
           start + "X-Y : 1\r\n\r\n",
           start + "X: 1\r\n folded\r\n\r\n",
           start + "X: 1\r\n\tfolded\r\n\r\n",
           start + "X: a\rb\r\n\r\n",
           start + "X: a\nY: b\r\n\r\n",
           start + std::string("X: a\0b\r\n\r\n", 10),
           start + "no colon\r\n\r\n",
           start + ": none\r\n\r\n",
           start + "Host: other\r\n\r\n",
           start + "Expect: 200-ok\r\n\r\n",
           std::string("POST / HTTP/1.1\nHost: h\n\n"),
           std::string("GET / HTTP/1.1\r\n\r\n"),
           std::string("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
           std::string("GET /\r\n\r\n"),
           std::string("GET  / HTTP/1.1\r\nHost: h\r\n\r\n"),
           std::string("GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n"),
           std::string("GET / HTTP/2.0\r\nHost: h\r\n\r\n"),
           std::string("GET / HTTP/1.1 \r\nHost: h\r\n\r\n"),
           std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
           std::string("\x16\x03\x01\x02\x00\x01\r\n\r\n", 10),
       })
    EXPECT_EQ(parse(request, 1000).status, 400) << request;
}

TEST(HttpParser, RefusesMalformedChunks) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& body : {
           std::string("x\r\n"),
           std::string("-1\r\n"),
           std::string("0x5\r\nhello\r\n"),
           std::string("11111111111111111\r\n"),
           std::string("5\r\nhelloX\r\n"),
           std::string("5\nhello\r\n0\r\n\r\n"),
           "5;" + std::string(8192, 'x'),
           "0\r\nX: " + std::string(8192, 'x'),
       })
    EXPECT_EQ(parse(start + body, 1000).status, 400) << body.substr(0, 40);
}

TEST(HttpParser, BoundsTheHead) {
  const std::string start = "GET / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(parse(start + "X: " + std::string(20'000, 'x') + "\r\n\r\n", 100'000).status, 431);
  EXPECT_EQ(parse(start + "X: " + std::string(10'000'000, 'x'), 1000).status, 431);
  EXPECT_EQ(
      parse("GET /" + std::string(10'000, 'x') + " HTTP/1.1\r\nHost: h\r\n\r\n", 100'000).status,
      414);
  std::string many = start;
  for (int i = 0; i < 200; ++i) many += "X: 1\r\n";
  EXPECT_EQ(parse(many + "\r\n", 100'000).status, 431);
}

TEST(HttpParser, TellsWhetherTheConnectionGoesOn) {
  EXPECT_FALSE(
      parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 1000).head.keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n", 1000).head.keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1000).head.keep_alive);
}

TEST(HttpParser, SeesExpectations) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n";
  EXPECT_TRUE(parse(start + "Content-Length: 5\r\n\r\n", 1000).head.expects_continue);
  EXPECT_FALSE(parse(start + "\r\n", 1000).head.expects_continue);
}

}  // namespace
}  // namespace daiv::api
