#include "proxy/forwarded_head.hpp"

#include <gtest/gtest.h>

namespace daiv::proxy {
namespace {

RequestHead request(std::vector<Field> fields, int minor_version = 1) {
  return RequestHead{"GET", "/", minor_version, std::move(fields)};
}

Destination destination() {
  return {Scheme::http, {HostName::parse("a.test").value(), 8080}, "/p"};
}

TEST(ForwardedHead, GetsAHostWhereHttp10SentNone) {
  const auto planned =
      plan_request(request({{"X", "1"}}, 0), destination(), Upgrade::none, nullptr);
  EXPECT_EQ(to_text(planned), "GET /p HTTP/1.1\r\nHost: a.test:8080\r\nX: 1\r\n\r\n");
}

TEST(ForwardedHead, KeepsFieldsThatConnectionMustNotName) {
  const auto planned = plan_request(
      request({{"Host", "a.test"},
               {"Content-Length", "3"},
               {"Connection", "host, content-length, transfer-encoding, authorization"},
               {"Authorization", "x"}}),
      destination(), Upgrade::none, nullptr);
  EXPECT_EQ(to_text(planned), "GET /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n");
}

// The client may name the injected field as a hop-by-hop one: it is set after those are gone.
TEST(ForwardedHead, AConnectionFieldDoesNotTakeTheSecretOut) {
  const Secret secret{"Authorization", "Bearer x"};
  const auto planned = plan_request(request({{"Host", "a.test"}, {"Connection", "authorization"}}),
                                    destination(), Upgrade::none, &secret);
  EXPECT_EQ(planned.fields.back().value, "Bearer x");
}

TEST(ForwardedHead, UpgradesToAWebSocketAlone) {
  const BodyFraming none;
  const BodyFraming body{BodyFraming::Kind::length, 3};
  const auto asks = [](const char* protocol) {
    return request({{"Host", "a"}, {"Connection", "Upgrade"}, {"Upgrade", protocol}});
  };
  EXPECT_EQ(find_upgrade(asks("WebSocket"), none), Upgrade::websocket);
  EXPECT_EQ(find_upgrade(asks("websocket"), body), Upgrade::none);
  EXPECT_EQ(find_upgrade(asks("h2c"), none), Upgrade::none);
  EXPECT_EQ(find_upgrade(asks("websocket, h2c"), none), Upgrade::none);
  EXPECT_EQ(find_upgrade(request({{"Upgrade", "websocket"}}), none), Upgrade::none);
}

TEST(ForwardedHead, SecretsThatWouldBeTwoFieldsAreNotSendable) {
  EXPECT_TRUE(is_sendable({"X-Key", "a b"}));
  EXPECT_FALSE(is_sendable({"X-Key", "a\r\nHost: b"}));
  EXPECT_FALSE(is_sendable({"X Key", "a"}));
  EXPECT_FALSE(is_sendable({"", "a"}));
  EXPECT_TRUE(is_sendable({"Proxy-Authorization", "Basic YTpi"}));
  for (const char* name : {"Host", "content-length", "Transfer-Encoding", "Trailer", "Connection",
                           "Keep-Alive", "TE", "Upgrade", "Expect", "Proxy-Connection"})
    EXPECT_FALSE(is_sendable({name, "1"})) << name;
}

}  // namespace
}  // namespace daiv::proxy
