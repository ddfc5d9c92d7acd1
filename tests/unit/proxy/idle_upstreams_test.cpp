#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>

#include "http2_peer.hpp"
#include "proxy_rig.hpp"

namespace daiv::proxy::testing {
namespace {

std::string request(std::string_view method, std::uint16_t port) {
  return fmt::format("{} / HTTP/1.1\r\nHost: cred.test:{}\r\nContent-Length: 0\r\n\r\n", method,
                     port);
}

// What the origin read of a request by a client of its own, which is closed afterwards.
std::string ask(ProxyRig& rig, std::uint16_t port, std::string_view method = "GET") {
  Peer client = rig.connect_tls("cred.test", port);
  client.send(request(method, port));
  const auto answer = client.receive_message();
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 200 ")) << answer.head;
  client.finish_sending();
  EXPECT_TRUE(client.at_end());
  return answer.body;
}

Policy with_secret(std::string secret) {
  return make_policy({{"cred.test", {}, std::move(secret)}});
}

TEST(IdleUpstreams, ServeTheNextClient) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(with_secret("gh"));
  for (int i = 0; i < 5; ++i) ask(rig, origin.port());
  EXPECT_EQ(origin.connections(), 1);
}

TEST(IdleUpstreams, CarryNothingThatCanNotBeRepeated) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(with_secret("gh"));
  ask(rig, origin.port());
  ask(rig, origin.port(), "POST");
  EXPECT_EQ(origin.connections(), 2);
}

TEST(IdleUpstreams, EndWithThePolicyThatTheyWereMadeUnder) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(with_secret("old"));
  EXPECT_NE(ask(rig, origin.port()).find("Bearer old"), std::string::npos);
  rig.set_policy(with_secret("new"));
  EXPECT_NE(ask(rig, origin.port()).find("Bearer new"), std::string::npos);
  EXPECT_EQ(origin.connections(), 2);
}

// Of a client's own connection, too, which is on none of them: it is the same name with another
// value.
TEST(IdleUpstreams, EndWithThePolicyAlsoForTheClientThatUsesThem) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "old"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  for (int i = 0; i < 2; ++i) {
    client.send(request("GET", origin.port()));
    EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
  }
  EXPECT_EQ(origin.connections(), 1);
  rig.set_policy(make_policy({{"cred.test", {}, "old"}}));
  client.send(request("GET", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(origin.connections(), 2);
}

TEST(IdleUpstreams, AreLeftWhereTheOriginHasClosedThem) {
  std::atomic<int> served = 0;
  TestOrigin origin(
      [&](Peer& peer) {
        if (peer.receive_until("\r\n\r\n").empty()) return;
        ++served;
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
      },
      origin_leaf("cred.test"));
  ProxyRig rig(with_secret("gh"));
  for (int i = 0; i < 5; ++i) ask(rig, origin.port());
  EXPECT_EQ(served, 5);
}

TEST(IdleUpstreams, AreLeftWhereMoreCameThanTheAnswer) {
  TestOrigin origin(
      [](Peer& peer) {
        while (!peer.receive_until("\r\n\r\n").empty())
          peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 Forged\r\n\r\n");
      },
      origin_leaf("cred.test"));
  ProxyRig rig(with_secret("gh"));
  EXPECT_EQ(ask(rig, origin.port()), "ok");
  EXPECT_EQ(ask(rig, origin.port()), "ok");
  EXPECT_EQ(origin.connections(), 2);
}

// gRPC needs HTTP/2 up to the origin, which was not offered it for a client of HTTP/1.
TEST(IdleUpstreams, AreNotForHttp2WhereTheOriginWasNotAskedForIt) {
  TestOrigin origin(echo, origin_leaf("cred.test"), only_http1);
  ProxyRig rig(with_secret("gh"));
  ask(rig, origin.port());
  const std::string authority = fmt::format("cred.test:{}", origin.port());
  for (int i = 0; i < 2; ++i) {
    Http2Peer client = connect_http2(rig, "cred.test", origin.port());
    EXPECT_EQ(client.finish(client.get(authority)).status, 200);
  }
  EXPECT_EQ(origin.connections(), 2);
}

}  // namespace
}  // namespace daiv::proxy::testing
