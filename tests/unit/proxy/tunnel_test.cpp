#include <fmt/format.h>
#include <gtest/gtest.h>

#include "proxy_rig.hpp"

namespace daiv::proxy::testing {
namespace {

void shout(Peer& peer) {
  for (std::string got = peer.receive(); !got.empty(); got = peer.receive()) peer.send(got + "!");
}

TEST(Tunnel, PassesBytesUnread) {
  TestOrigin origin(shout);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  EXPECT_EQ(ProxyRig::open_tunnel(client, fmt::format("allowed.test:{}", origin.port())),
            "HTTP/1.1 200 Connection established\r\n\r\n");
  client.send("\x01\x02\r\n\r\n");
  EXPECT_EQ(client.receive_until("!"), "\x01\x02\r\n\r\n!");
  client.finish_sending();
  EXPECT_TRUE(client.at_end());
  const auto decision = rig.wait_for_decisions(1).front();
  EXPECT_EQ(decision.kind, Decision::Kind::tunnel);
  EXPECT_EQ(decision.bytes_up, 6U);
  EXPECT_EQ(decision.bytes_down, 7U);
}

TEST(Tunnel, LetsTheOriginSpeakFirst) {
  TestOrigin origin([](Peer& peer) {
    peer.send("SSH-2.0-x\r\n");
    peer.receive_all();
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("allowed.test:{}", origin.port()));
  EXPECT_EQ(client.receive_until("\n"), "SSH-2.0-x\r\n");
}

TEST(Tunnel, PassesAHalfClosedStreamOn) {
  TestOrigin origin([](Peer& peer) {
    const std::string all = peer.receive_all();
    peer.send(fmt::format("{} bytes", all.size()));
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("allowed.test:{}", origin.port()));
  client.send(std::string(3 << 20, 'x'));
  client.finish_sending();
  EXPECT_EQ(client.receive_all(), fmt::format("{} bytes", 3 << 20));
}

// Bytes that differ from place to place: what comes twice, late or not at all is seen.
std::string long_text(std::size_t seed) {
  std::string text(5 << 20, '\0');
  std::size_t state = seed;
  for (char& byte : text) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<char>(state >> 56U);
  }
  return text;
}

// More than a session has pipes for, each held up by a client that takes its time.
TEST(Tunnel, MovesLargeStreamsWholeBothWays) {
  TestOrigin origin([](Peer& peer) {
    const std::string seed = peer.receive_until("\n");
    const std::string sent = long_text(std::stoul(seed));
    peer.send(sent);
    const std::string got = peer.receive_bytes(sent.size());
    peer.send(got == sent ? "same" : "different");
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  std::vector<Peer> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(rig.connect());
    ProxyRig::open_tunnel(clients.back(), fmt::format("allowed.test:{}", origin.port()));
    clients.back().send(fmt::format("{}\n", i));
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const std::string text = long_text(i);
    EXPECT_TRUE(clients[i].receive_bytes(text.size()) == text) << i;
    clients[i].send(text);
    EXPECT_EQ(clients[i].receive_all(), "same") << i;
  }
}

TEST(Tunnel, RefusesADeniedHostAndGoesOn) {
  TestOrigin origin(shout);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send("CONNECT denied.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n");
  const auto refusal = client.receive_message();
  EXPECT_TRUE(refusal.head.starts_with("HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n"));
  EXPECT_EQ(refusal.body,
            "egress: destination not allowed\ndenied.test:443: no rule lists denied.test\n"
            "a rule that would allow it: {\"host\": \"denied.test\"}\n");
  EXPECT_TRUE(ProxyRig::open_tunnel(client, fmt::format("allowed.test:{}", origin.port()))
                  .starts_with("HTTP/1.1 200 "));
}

TEST(Tunnel, RefusesATargetThatIsNone) {
  ProxyRig rig(make_policy({{"allowed.test"}}, Default::allow));
  for (const char* target : {"allowed.test", "allowed.test:0", "allowed.test:65536",
                             "user@allowed.test:443", "allowed.test:443/x", "http://a.test:443",
                             "allowed.test:44x3", ":443", "a..test:443", "::1:443"}) {
    Peer client = rig.connect();
    EXPECT_TRUE(ProxyRig::open_tunnel(client, target).starts_with("HTTP/1.1 400 ")) << target;
  }
}

TEST(Tunnel, Is502WhereTheOriginCantBeReached) {
  std::uint16_t port = 0;
  {
    const auto closed = listen_on_loopback();
    port = port_of(closed);
  }
  ProxyRig rig(make_policy({{"allowed.test"}, {"*.invalid"}}));
  Peer client = rig.connect();
  client.send(fmt::format("CONNECT allowed.test:{} HTTP/1.1\r\n\r\n", port));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 502 "));
  client.send("CONNECT no.such.invalid:443 HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 502 "));
}

TEST(Tunnel, ShowsTheOriginsOwnCertificate) {
  TestOrigin origin(echo, origin_leaf("allowed.test"));
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("allowed.test:{}", origin.port()));
  EXPECT_TRUE(client.connect_tls({.name = "allowed.test",
                                  .verified = "allowed.test",
                                  .roots_pem = origin_authority().trusted_pem(),
                                  .alpn = {}}));
}

TEST(Tunnel, IsCutWhereTheSniIsAnotherHost) {
  TestOrigin origin(shout);
  ProxyRig rig(make_policy({{"allowed.test"}, {"other.test"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("allowed.test:{}", origin.port()));
  EXPECT_FALSE(
      client.connect_tls({.name = "other.test", .verified = {}, .roots_pem = {}, .alpn = {}}));
  const auto decision = rig.wait_for_decisions(1).front();
  EXPECT_FALSE(decision.allowed);
  EXPECT_EQ(decision.reason, "the SNI other.test is not the CONNECT host");
  EXPECT_EQ(decision.bytes_up, 0U);
}

TEST(Tunnel, IsCutByAPolicyThatTakesItsHostOut) {
  TestOrigin origin(shout);
  ProxyRig rig(make_policy({{"allowed.test"}, {"other.test"}}));
  Peer cut = rig.connect();
  Peer kept = rig.connect();
  ProxyRig::open_tunnel(cut, fmt::format("allowed.test:{}", origin.port()));
  ProxyRig::open_tunnel(kept, fmt::format("other.test:{}", origin.port()));
  cut.send("a");
  EXPECT_EQ(cut.receive_until("!"), "a!");
  rig.set_policy(make_policy({{"other.test"}}));
  EXPECT_TRUE(cut.at_end());
  kept.send("b");
  EXPECT_EQ(kept.receive_until("!"), "b!");
  EXPECT_EQ(rig.counters().tunnels_cut, 1U);
}

TEST(Tunnel, IsCutByAPolicyThatLimitsItsMethods) {
  TestOrigin origin(shout);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("allowed.test:{}", origin.port()));
  rig.set_policy(make_policy({{"allowed.test", {"GET"}}}));
  EXPECT_TRUE(client.at_end());
}

TEST(Tunnel, EndsWithItsSession) {
  TestOrigin origin(shout);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("allowed.test:{}", origin.port()));
  Peer idle = rig.connect();
  rig.run([](EgressProxy& proxy) {
    proxy.remove("s1");
    EXPECT_FALSE(proxy.serves("s1"));
    EXPECT_FALSE(proxy.update("s1", Policy()));
  });
  EXPECT_TRUE(client.at_end());
  EXPECT_TRUE(idle.at_end());
}

TEST(Tunnel, JudgesPlainHttpInsideOneToALimitedHost) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"limited.test", {"GET"}}, {"other.test"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("limited.test:{}", origin.port()));
  client.send("GET /a HTTP/1.1\r\nHost: limited.test\r\n\r\n");
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
  client.send("DELETE /a HTTP/1.1\r\nHost: limited.test\r\n\r\n");
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
  client.send("GET /a HTTP/1.1\r\nHost: other.test\r\n\r\n");
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 421 "));
  EXPECT_TRUE(client.at_end());
}

TEST(Tunnel, PassesNoBytesThatAreNoHttpToALimitedHost) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"limited.test", {"GET"}}}));
  for (const char* bytes : {"\r\nGET / HTTP/1.1\r\nHost: limited.test\r\n\r\n", "XX\r\n\r\n",
                            "\x01\x02\x03\r\n\r\n", "P0ST / HTTP/1.1\r\nHost: limited.test\r\n\r\n",
                            "M-SEARCH * HTTP/1.1\r\nHost: limited.test\r\n\r\n"}) {
    Peer client = rig.connect();
    ProxyRig::open_tunnel(client, fmt::format("limited.test:{}", origin.port()));
    client.send(bytes);
    const std::string answer = client.receive_until("\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 4")) << bytes << answer;
  }
  EXPECT_EQ(origin.connections(), 0);
}

TEST(Tunnel, RefusesConnectionsAboveTheLimit) {
  ProxyRig rig(make_policy({}), [](EgressSettings& settings) { settings.max_connections = 2; });
  Peer first = rig.connect();
  Peer second = rig.connect();
  Peer third = rig.connect();
  EXPECT_TRUE(third.receive_all().starts_with("HTTP/1.1 503 "));
  first.send("GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n");
  EXPECT_TRUE(first.receive_message().head.starts_with("HTTP/1.1 403 "));
}

TEST(Tunnel, EndsAConnectionWhoseHeadDripsIn) {
  ProxyRig rig(make_policy({}), [](EgressSettings& settings) {
    settings.timeouts.head = std::chrono::milliseconds(200);
  });
  Peer client = rig.connect();
  client.send("GET http://denied.test/ HTTP/1.1\r\nHo");
  EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 408 "));
  Peer silent = rig.connect();
  EXPECT_TRUE(silent.at_end());
}

}  // namespace
}  // namespace daiv::proxy::testing
