#include "proxy/http2_session.hpp"

#include <gtest/gtest.h>

// Two ends of a connection, their bytes passed by hand.
namespace daiv::proxy {
namespace {

const std::vector<Field> request{
    {":method", "POST"}, {":scheme", "https"}, {":authority", "a.test"}, {":path", "/"}};

// What a client says first (RFC 9113 §3.4), with empty settings.
const std::string preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

std::string frame(char type, char flags, char stream, const std::string& payload) {
  const auto size = static_cast<unsigned char>(payload.size());
  return std::string{0, 0, static_cast<char>(size), type, flags, 0, 0, 0, stream} + payload;
}

void pass(Http2Session& from, Http2Session& to) {
  for (std::string bytes = from.take_output(1U << 20); !bytes.empty();
       bytes = from.take_output(1U << 20))
    ASSERT_TRUE(to.feed(bytes));
}

void settle(Http2Session& client, Http2Session& server) {
  for (int i = 0; i < 4; ++i) {
    pass(client, server);
    pass(server, client);
  }
}

TEST(Http2Session, TakesNoMoreOfAnAnswerThanItsWindowUntilItIsConsumed) {
  Http2Session client(Http2Role::client);
  Http2Session server(Http2Role::server);
  settle(client, server);
  const auto id = client.open_stream(request, true, {}).value();
  settle(client, server);
  server.send_head(id, {{":status", "200"}}, false);
  server.send_body(id, std::string(1U << 20, 'x'));
  settle(client, server);
  EXPECT_EQ(client.find(id)->received.size(), http2_connection_window);
  client.widen(http2_stream_window);
  settle(client, server);
  EXPECT_EQ(client.find(id)->received.size(), http2_stream_window);
  client.consume(id, http2_stream_window);
  settle(client, server);
  EXPECT_EQ(client.find(id)->received.size(), 2 * http2_stream_window);
}

// However wide the connection is.
TEST(Http2Session, TakesNoMoreOfAnUploadThanItsClientsSocketHolds) {
  Http2Session client(Http2Role::client);
  Http2Session server(Http2Role::server);
  settle(client, server);
  server.widen(http2_stream_window);
  const auto id = client.open_stream(request, false, {}).value();
  client.send_body(id, std::string(1U << 20, 'x'));
  settle(client, server);
  EXPECT_EQ(server.find(id)->received.size(), http2_upload_window);
  server.consume(id, http2_upload_window);
  settle(client, server);
  EXPECT_EQ(server.find(id)->received.size(), 2 * http2_upload_window);
}

TEST(Http2Session, GivesTheWindowBackOfAStreamThatIsForgotten) {
  Http2Session client(Http2Role::client);
  Http2Session server(Http2Role::server);
  settle(client, server);
  for (int i = 0; i < 5; ++i) {
    const auto id = client.open_stream(request, false, {}).value();
    client.send_body(id, std::string(http2_connection_window, 'x'));
    settle(client, server);
    ASSERT_EQ(server.find(id)->received.size(), http2_upload_window) << i;
    server.forget(id);
    client.forget(id);
    settle(client, server);
  }
}

TEST(Http2Session, BoundsTheStreamsThatAreOpen) {
  Http2Session client(Http2Role::client);
  Http2Session server(Http2Role::server);
  settle(client, server);
  for (std::uint32_t i = 0; i < 2 * http2_max_streams; ++i) client.open_stream(request, true, {});
  settle(client, server);
  EXPECT_EQ(server.stream_count(), http2_max_streams);
}

TEST(Http2Session, BoundsTheStreamsThatAreStillWorkedOn) {
  Http2Session client(Http2Role::client);
  Http2Session server(Http2Role::server);
  for (std::uint32_t i = 0; i < 3 * http2_max_kept_streams; ++i) {
    const auto id = client.open_stream(request, false, {});
    if (!id) break;
    settle(client, server);
    client.forget(*id);
    settle(client, server);
  }
  EXPECT_EQ(server.stream_count(), http2_max_kept_streams);
}

TEST(Http2Session, EndsAConnectionThatAsksWithoutTakingAnswers) {
  Http2Session server(Http2Role::server);
  ASSERT_TRUE(server.feed(preface));
  const std::string ping = frame(6, 0, 0, std::string(8, 'p'));
  bool going = true;
  for (std::size_t i = 0; going && i < 2 * http2_max_queued_frames; ++i) going = server.feed(ping);
  EXPECT_FALSE(going);
  EXPECT_NE(server.broken(), "");
}

TEST(Http2Session, EndsAConnectionWhoseHeadGoesOn) {
  Http2Session server(Http2Role::server);
  ASSERT_TRUE(server.feed(preface));
  ASSERT_TRUE(server.feed(frame(1, 0, 1, "\x82\x87\x84")));
  // Literal fields without indexing, one a frame (CVE-2024-28182).
  const std::string more =
      frame(9, 0, 1, std::string("\x00\x01x\x7f", 4) + std::string(1, 0) + std::string(127, 'v'));
  bool going = true;
  for (int i = 0; going && i < 20'000; ++i) going = server.feed(more) && server.is_alive();
  EXPECT_FALSE(going);
}

TEST(Http2Session, ReadsTheSameHoweverTheBytesAreCut) {
  Http2Session client(Http2Role::client);
  const auto id = client.open_stream(request, false, {}).value();
  client.send_body(id, "body");
  client.end_body(id, {{"x-sum", "4"}});
  const std::string bytes = client.take_output(1U << 20);
  Http2Session server(Http2Role::server);
  for (const char byte : bytes) ASSERT_TRUE(server.feed({&byte, 1}));
  const Http2Stream* stream = server.find(id);
  EXPECT_EQ(stream->received, "body");
  EXPECT_TRUE(stream->ended);
  EXPECT_EQ(stream->trailers.front().value, "4");
}

TEST(Http2Session, IsBrokenByWhatIsNoHttp2) {
  Http2Session server(Http2Role::server);
  EXPECT_FALSE(server.feed("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
}

}  // namespace
}  // namespace daiv::proxy
