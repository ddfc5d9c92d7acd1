#include "proxy/http_body.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace daiv::proxy {
namespace {

constexpr BodyFraming chunked{BodyFraming::Kind::chunked, 0};

// Feeds `bytes` in pieces of `size`, as a socket's buffer does: what was not taken is given again
// with more.
std::expected<std::string, HttpFault> read(BodyReader& reader, std::string_view bytes,
                                           std::size_t size, std::string* rest = nullptr) {
  std::string body;
  std::string buffer;
  while (!bytes.empty() && !reader.done()) {
    buffer += bytes.substr(0, size);
    bytes.remove_prefix(std::min(size, bytes.size()));
    const auto taken = reader.feed(buffer, body);
    if (!taken) return std::unexpected(taken.error());
    buffer.erase(0, *taken);
  }
  if (rest != nullptr) *rest = buffer + std::string(bytes);
  return body;
}

TEST(ChunkedBody, IsReadWhateverThePiecesAre) {
  const std::string wire =
      "5;ext=\"x\"\r\nhello\r\n1 \r\n \r\nA\r\n0123456789\r\n0\r\nX-T: v\r\n\r\nNEXT";
  for (std::size_t size = 1; size <= wire.size(); ++size) {
    BodyReader reader(chunked);
    std::string rest;
    EXPECT_EQ(read(reader, wire, size, &rest).value(), "hello 0123456789");
    EXPECT_TRUE(reader.done());
    EXPECT_EQ(rest, "NEXT");
    ASSERT_EQ(reader.trailers().size(), 1U);
    EXPECT_EQ(reader.trailers()[0].value, "v");
  }
}

class BadChunks : public testing::TestWithParam<const char*> {};
TEST_P(BadChunks, AreRefused) {
  BodyReader reader(chunked);
  EXPECT_FALSE(read(reader, GetParam(), 1000));
}
INSTANTIATE_TEST_SUITE_P(Table, BadChunks,
                         testing::Values("5\nhello\r\n", "5;a\nb\r\nhello\r\n",
                                         "5;a\rb\r\nhello\r\n", "x\r\n", "\r\n", "-1\r\n",
                                         "+5\r\nhello\r\n", "0x5\r\nhello\r\n", "5\r\nhello!\r\n",
                                         "5\r\nhelloX\n", "00000000000000005\r\nhello\r\n",
                                         "5 5\r\nhello\r\n", "0\r\nA : b\r\n\r\n",
                                         "0\r\nA: b\r\n c\r\n\r\n"));

TEST(ChunkedBody, AnEndlessLineIsRefused) {
  BodyReader reader(chunked);
  std::string body;
  EXPECT_FALSE(reader.feed("5;" + std::string(5000, 'x'), body));
}

TEST(ChunkedBody, EndlessTrailersAreRefused) {
  BodyReader reader(chunked);
  std::string body;
  EXPECT_FALSE(reader.feed("0\r\nA: " + std::string(70000, 'x'), body));
}

TEST(CountedBody, LeavesWhatFollowsIt) {
  BodyReader reader({BodyFraming::Kind::length, 5});
  std::string body;
  EXPECT_EQ(reader.feed("helloGET", body).value(), 5U);
  EXPECT_TRUE(reader.done());
}

TEST(CountedBody, IsShortWhereTheSenderCloses) {
  BodyReader reader({BodyFraming::Kind::length, 5});
  std::string body;
  EXPECT_EQ(reader.feed("hel", body).value(), 3U);
  EXPECT_FALSE(reader.finish());
}

TEST(OpenBody, EndsWithTheConnection) {
  BodyReader reader({BodyFraming::Kind::until_close, 0});
  std::string body;
  EXPECT_EQ(reader.feed("hello", body).value(), 5U);
  EXPECT_FALSE(reader.done());
  EXPECT_TRUE(reader.finish());
}

TEST(Chunks, TrailersThatFrameOrAuthenticateAreDropped) {
  EXPECT_EQ(make_chunk("hello"), "5\r\nhello\r\n");
  EXPECT_EQ(
      make_last_chunk({{"Content-Length", "5"}, {"authorization", "x"}, {"grpc-status", "0"}}),
      "0\r\ngrpc-status: 0\r\n\r\n");
}

}  // namespace
}  // namespace daiv::proxy
