#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/x509.h>

#include "proxy_rig.hpp"

namespace daiv::proxy::testing {
namespace {

std::string get(const std::string& host, std::uint16_t port, const std::string& more = {}) {
  return fmt::format("GET /x HTTP/1.1\r\nHost: {}:{}\r\n{}\r\n", host, port, more);
}

TEST(Intercept, InjectsIntoEveryRequestOverVerifiedTls) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  for (int i = 0; i < 3; ++i) {
    client.send(get("cred.test", origin.port(), "authorization: mine\r\n"));
    EXPECT_EQ(client.receive_message().body,
              fmt::format("GET /x HTTP/1.1\r\nHost: cred.test:{}\r\nAuthorization: Bearer gh\r\n"
                          "\r\n",
                          origin.port()));
  }
  EXPECT_EQ(origin.connections(), 1);
  EXPECT_EQ(rig.counters().injections, 3U);
}

TEST(Intercept, ShowsALeafOfTheConfiguredAuthority) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  for (int i = 0; i < 2; ++i) {
    Peer client = rig.connect_tls("cred.test", origin.port());
    const CertificatePtr leaf(::SSL_get1_peer_certificate(client.ssl()));
    EXPECT_EQ(::X509_check_host(leaf.get(), "cred.test", 0, 0, nullptr), 1);
    EXPECT_EQ(::X509_check_host(leaf.get(), "other.test", 0, 0, nullptr), 0);
  }
  EXPECT_EQ(rig.counters().certificates, 1U);
  EXPECT_EQ(rig.counters().handshakes, 2U);
}

TEST(Intercept, LetsTheConnectHostStandInForAMissingSni) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("cred.test:{}", origin.port()));
  ASSERT_TRUE(client.connect_tls({.name = {},
                                  .verified = "cred.test",
                                  .roots_pem = client_authority().trusted_pem(),
                                  .alpn = {}}));
  client.send(get("cred.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
}

TEST(Intercept, RefusesAnSniOfAnotherHost) {
  TestOrigin origin(echo, origin_leaf("limited.test"));
  ProxyRig rig(make_policy({{"limited.test", {"GET"}}, {"allowed.test"}}));
  Peer client = rig.connect();
  ProxyRig::open_tunnel(client, fmt::format("limited.test:{}", origin.port()));
  EXPECT_FALSE(
      client.connect_tls({.name = "allowed.test", .verified = {}, .roots_pem = {}, .alpn = {}}));
  EXPECT_EQ(origin.connections(), 0);
}

TEST(Intercept, RefusesRequestsForOtherHostsInsideATunnel) {
  TestOrigin origin(echo, origin_leaf("other.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}, {"other.test"}, {"limited.test", {"GET"}}},
                           Default::deny, Intercept::all));
  const auto port = origin.port();
  const std::string spoofs[] = {
      get("cred.test", port),
      "GET / HTTP/1.1\r\nHost: cred.test\r\n\r\n",
      fmt::format("GET https://cred.test:{0}/ HTTP/1.1\r\nHost: cred.test:{0}\r\n\r\n", port),
      fmt::format("GET https://cred.test:{0}/ HTTP/1.1\r\nHost: other.test:{0}\r\n\r\n", port),
      fmt::format("GET http://other.test:{0}/ HTTP/1.1\r\nHost: other.test:{0}\r\n\r\n", port),
      fmt::format("GET / HTTP/1.1\r\nHost: other.test:{}\r\nHost: cred.test\r\n\r\n", port),
      fmt::format("CONNECT cred.test:{} HTTP/1.1\r\n\r\n", port),
  };
  for (const auto& spoof : spoofs) {
    Peer client = rig.connect_tls("other.test", port);
    client.send(get("other.test", port));
    EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
    client.send(spoof);
    EXPECT_TRUE(client.receive_until("\r\n\r\n").starts_with("HTTP/1.1 4")) << spoof;
  }
  EXPECT_EQ(rig.counters().injections, 0U);
}

TEST(Intercept, ServesOnAfterARefusedMethod) {
  TestOrigin origin(echo, origin_leaf("limited.test"));
  ProxyRig rig(make_policy({{"limited.test", {"GET"}}}));
  Peer client = rig.connect_tls("limited.test", origin.port());
  client.send(
      fmt::format("POST / HTTP/1.1\r\nHost: limited.test:{}\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\nabc\r\n0\r\n\r\n",
                  origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
  client.send(get("limited.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
}

TEST(Intercept, HoldsANewPolicyAgainstTheNextRequest) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "old"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  client.send(get("cred.test", origin.port()));
  EXPECT_NE(client.receive_message().body.find("Bearer old"), std::string::npos);
  rig.set_policy(make_policy({{"cred.test", {}, "new"}}));
  client.send(get("cred.test", origin.port()));
  EXPECT_NE(client.receive_message().body.find("Bearer new"), std::string::npos);
  rig.set_policy(make_policy({}));
  client.send(get("cred.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
}

TEST(Intercept, SendsNothingToAnOriginWhoseCertificateIsForAnotherName) {
  TestOrigin origin(echo, origin_leaf("other.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  client.send(get("cred.test", origin.port()));
  const auto answer = client.receive_message();
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 502 "));
  EXPECT_NE(answer.body.find("ostname mismatch"), std::string::npos) << answer.body;
}

TEST(Intercept, SendsNothingToAnOriginOfAnUnknownRoot) {
  TestOrigin origin(echo,
                    client_authority().issue(host("cred.test"), std::chrono::system_clock::now()));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  client.send(get("cred.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 502 "));
}

TEST(Intercept, SendsNothingToAnOriginWhoseCertificateHasExpired) {
  TestOrigin origin(
      echo, origin_authority().issue(host("cred.test"),
                                     std::chrono::system_clock::now() - std::chrono::days(300)));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  client.send(get("cred.test", origin.port()));
  const auto answer = client.receive_message();
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 502 ")) << answer.head;
}

TEST(Intercept, SendsNothingToAnOriginThatSpeaksNoTls) {
  TestOrigin origin([](Peer& peer) {
    peer.send("HTTP/1.1 200 OK\r\n\r\n");
    peer.receive_all();
  });
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  client.send(get("cred.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 502 "));
}

TEST(Intercept, FetchesAnHttpsUrlThatCameWithoutConnect) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect();
  client.send(fmt::format("GET https://cred.test:{0}/y HTTP/1.1\r\nHost: cred.test:{0}\r\n\r\n",
                          origin.port()));
  EXPECT_TRUE(client.receive_message().body.starts_with("GET /y HTTP/1.1\r\n"));
}

TEST(Intercept, PassesWhatComesThroughTlsWithOtherProtocolsUnserved) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  client.send(std::string("\x16\x03\x01 binary\r\n\r\n"));
  EXPECT_TRUE(client.receive_until("\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(origin.connections(), 0);
}

TEST(Intercept, ResumesSessionsWithClients) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer first = rig.connect_tls("cred.test", origin.port());
  first.send(get("cred.test", origin.port()));
  first.receive_message();
  const TlsSessionPtr session(::SSL_get1_session(first.ssl()));
  Peer second = rig.connect();
  ProxyRig::open_tunnel(second, fmt::format("cred.test:{}", origin.port()));
  ASSERT_TRUE(second.connect_tls({.name = "cred.test",
                                  .verified = "cred.test",
                                  .roots_pem = client_authority().trusted_pem(),
                                  .alpn = {},
                                  .resume = session.get()}));
  EXPECT_EQ(::SSL_session_reused(second.ssl()), 1);
}

TEST(Intercept, ResumesSessionsWithOrigins) {
  std::atomic<int> resumed = 0;
  TestOrigin origin(
      [&](Peer& peer) {
        resumed += ::SSL_session_reused(peer.ssl());
        peer.receive_until("\r\n\r\n");
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
      },
      origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  for (int i = 0; i < 3; ++i) {
    Peer client = rig.connect_tls("cred.test", origin.port());
    client.send(get("cred.test", origin.port()));
    EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
  }
  EXPECT_EQ(resumed, 2);
}

TEST(Intercept, ReplacedAuthorityHoldsForNewConnections) {
  TestOrigin origin(echo, origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer before = rig.connect_tls("cred.test", origin.port());
  rig.run([](EgressProxy& proxy) {
    proxy.replace_authority(std::make_shared<const CertificateAuthority>(origin_authority()));
  });
  Peer after = rig.connect();
  ProxyRig::open_tunnel(after, fmt::format("cred.test:{}", origin.port()));
  EXPECT_TRUE(after.connect_tls({.name = "cred.test",
                                 .verified = "cred.test",
                                 .roots_pem = origin_authority().trusted_pem(),
                                 .alpn = {}}));
  before.send(get("cred.test", origin.port()));
  EXPECT_TRUE(before.receive_message().head.starts_with("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace daiv::proxy::testing
