#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "proxy_rig.hpp"

namespace daiv::proxy::testing {
namespace {

std::string get(const std::string& host, std::uint16_t port, const std::string& more = {}) {
  return fmt::format("GET http://{0}:{1}/x HTTP/1.1\r\nHost: {0}:{1}\r\n{2}\r\n", host, port, more);
}

TEST(PlainHttp, GoesOnInOriginFormWithSpellingAndOrderKept) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(
      fmt::format("GET http://allowed.test:{0}/a?b=c HTTP/1.1\r\nx-ZED: 1\r\n"
                  "HoSt: allowed.test:{0}\r\nAccept: */*\r\n\r\n",
                  origin.port()));
  const auto answer = client.receive_message();
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 200 OK\r\nX-Origin: yes\r\n")) << answer.head;
  EXPECT_EQ(answer.body, fmt::format("GET /a?b=c HTTP/1.1\r\nx-ZED: 1\r\nHoSt: allowed.test:{}\r\n"
                                     "Accept: */*\r\n\r\n",
                                     origin.port()));
}

TEST(PlainHttp, TakesOriginFormToo) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(fmt::format("GET /p HTTP/1.1\r\nHost: allowed.test:{}\r\n\r\n", origin.port()));
  EXPECT_TRUE(client.receive_message().body.starts_with("GET /p HTTP/1.1\r\n"));
}

TEST(PlainHttp, RefusesADeniedHostWithoutContactAndGoesOn) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get("denied.test", origin.port()));
  const auto refusal = client.receive_message();
  EXPECT_TRUE(refusal.head.starts_with("HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n"));
  EXPECT_EQ(refusal.body,
            fmt::format("egress: destination not allowed\nGET denied.test:{}: no rule lists "
                        "denied.test\na rule that would allow it: {{\"host\": \"denied.test\", "
                        "\"methods\": [\"GET\"]}}\n",
                        origin.port()));
  EXPECT_EQ(origin.connections(), 0);
  client.send(get("allowed.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
  const auto decisions = rig.wait_for_decisions(2);
  EXPECT_FALSE(decisions[0].allowed);
  EXPECT_EQ(decisions[0].reason, "no rule lists denied.test");
  EXPECT_TRUE(decisions[1].allowed);
  EXPECT_EQ(decisions[1].rule, "allowed.test");
}

TEST(PlainHttp, SendsNoBodyInARefusalOfHead) {
  ProxyRig rig(make_policy({}));
  Peer client = rig.connect();
  client.send(
      "HEAD http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n"
      "GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n");
  EXPECT_TRUE(client.receive_until("\r\n\r\n").starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
}

TEST(PlainHttp, RefusesADisallowedMethodAndReadsItsBodyAway) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"limited.test", {"GET"}}}));
  Peer client = rig.connect();
  client.send(fmt::format("POST http://limited.test:{0}/ HTTP/1.1\r\nHost: limited.test:{0}\r\n"
                          "Content-Length: 5\r\n\r\nhello",
                          origin.port()) +
              get("limited.test", origin.port()));
  EXPECT_NE(client.receive_message().body.find("lists the method POST"), std::string::npos);
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
}

// The attacks of which one took the credential from the Docker variant.
TEST(PlainHttp, JudgesTheHostThatIsConnectedTo) {
  TestOrigin attacker(echo);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}, {"allowed.test"}}));
  const auto port = attacker.port();
  const std::string spoofs[] = {
      fmt::format("GET http://denied.test:{}/ HTTP/1.1\r\nHost: cred.test\r\n\r\n", port),
      fmt::format("GET http://denied.test:{0}/ HTTP/1.1\r\nHost: cred.test:{0}\r\n\r\n", port),
      fmt::format("GET http://denied.test:{0}/ HTTP/1.1\r\nHost: CRED.test.:{0}\r\n\r\n", port),
      fmt::format("GET http://allowed.test:{0}/ HTTP/1.1\r\nHost: cred.test:{0}\r\n\r\n", port),
      fmt::format("GET http://denied.test:{0}/ HTTP/1.1\r\nHost: denied.test:{0}\r\n"
                  "Host: cred.test:{0}\r\n\r\n",
                  port),
      fmt::format("GET http://cred.test@denied.test:{0}/ HTTP/1.1\r\nHost: cred.test\r\n\r\n",
                  port),
      fmt::format("GET http://denied.test:{0}#cred.test/ HTTP/1.1\r\nHost: denied.test:{0}\r\n\r\n",
                  port),
      fmt::format("GET / HTTP/1.1\r\nHost: denied.test:{}\r\n\r\n", port),
  };
  for (const auto& spoof : spoofs) {
    Peer client = rig.connect();
    client.send(spoof);
    client.finish_sending();
    const std::string answer = client.receive_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ") || answer.starts_with("HTTP/1.1 400 "))
        << spoof << answer;
  }
  EXPECT_EQ(attacker.connections(), 0);
}

TEST(PlainHttp, RefusesWhatTwoParsersCouldReadDifferently) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  const std::string start =
      fmt::format("POST http://allowed.test:{0}/ HTTP/1.1\r\n", origin.port());
  const std::string host_line = fmt::format("Host: allowed.test:{0}\r\n", origin.port());
  const std::string with_host = start + host_line;
  const std::string table[] = {
      with_host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      with_host + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
      with_host + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
      with_host + "Content-Length: +5\r\n\r\nhello",
      with_host + "Content-Length: -5\r\n\r\nhello",
      with_host + "Content-Length: 0x5\r\n\r\nhello",
      with_host + "Content-Length: 4, 4\r\n\r\nbody",
      with_host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
      with_host + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
      with_host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      with_host + "X : 1\r\n\r\n",
      with_host + "X: 1\r\n folded\r\n\r\n",
      with_host + "X: 1\n\r\n\r\n",
      with_host + "X: a\rb\r\n\r\n",
      with_host + std::string("X: a\0b\r\n\r\n", 10),
      start + "Host: allowed.test\n\n",
      "GET http://allowed.test/\r\n",
      "GET\thttp://allowed.test/ HTTP/1.1\r\n\r\n",
      "GET http://allowed.test/a b HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "\r\nGET / HTTP/1.1\r\n\r\n",
      "GET ftp://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      with_host + "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
      with_host + "Transfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
      with_host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
      with_host + "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
  };
  for (const auto& request : table) {
    Peer client = rig.connect();
    client.send(request);
    const std::string answer = client.receive_all();  // it closes
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << request << "\n-> " << answer;
  }
  for (const std::string& field : {"X: " + std::string(1 << 20, 'a') + "\r\n", [] {
                                     std::string many;
                                     for (int i = 0; i < 5000; ++i)
                                       many += fmt::format("X-{}: 1\r\n", i);
                                     return many;
                                   }()}) {
    Peer client = rig.connect();
    client.send(with_host + field + "\r\n");
    EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 431 "));
  }
  EXPECT_EQ(origin.connections(), 0);
}

TEST(PlainHttp, PassesAHeaderOf60KiBEitherWay) {
  TestOrigin origin([](Peer& peer) {
    const auto head = peer.receive_until("\r\n\r\n");
    peer.send(fmt::format("HTTP/1.1 200 OK\r\nX-Long: {}\r\nContent-Length: 5\r\n\r\n{:05}",
                          std::string(60 << 10, 'b'), head.size() / 1024));
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get("allowed.test", origin.port(), "X: " + std::string(60 << 10, 'a') + "\r\n"));
  const auto answer = client.receive_message();
  EXPECT_GT(answer.head.size(), 60U << 10);
  EXPECT_EQ(answer.body, "00060");
}

TEST(PlainHttp, AnswersPipelinedRequestsOneByOne) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get("allowed.test", origin.port()) + get("denied.test", origin.port()) +
              get("allowed.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(origin.connections(), 1);
}

// All that is here of one connection was served before anything else of the daemon.
TEST(PlainHttp, LetsOthersInBetweenTheRequestsOfOneClient) {
  const auto denied = [](std::string_view name) {
    return fmt::format("GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\n\r\n", name);
  };
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer busy = rig.connect();
  Peer other = rig.connect();
  for (Peer* peer : {&busy, &other}) {
    peer->send(denied("first.test"));
    peer->receive_message();
  }
  std::string many;
  while (many.size() < 60'000) many += denied("busy.test");
  // On the proxy's thread: when it goes on, both have something to read.
  rig.run([&](EgressProxy&) {
    busy.send(many);
    other.send(denied("other.test"));
  });
  other.receive_message();
  const auto decisions = rig.decisions();
  const auto found = std::ranges::find(decisions, "GET other.test denied 403");
  EXPECT_LT(found - decisions.begin(), 200);
}

TEST(PlainHttp, DropsHopByHopFields) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get("allowed.test", origin.port(),
                  "Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\n"
                  "Connection: keep-alive, X-Hop, Host, HTTP2-Settings, Upgrade\r\nX-Hop: 1\r\n"
                  "Keep-Alive: 5\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nTE: trailers\r\n"
                  "X-Stays: 1\r\n"));
  EXPECT_EQ(
      client.receive_message().body,
      fmt::format("GET /x HTTP/1.1\r\nHost: allowed.test:{}\r\nX-Stays: 1\r\n\r\n", origin.port()));
}

TEST(PlainHttp, InjectsOnceLastInTheRulesSpelling) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect();
  client.send(get("cred.test", origin.port(),
                  "authorization: mine\r\nX: 1\r\nAUTHORIZATION: mine too\r\n"));
  EXPECT_EQ(client.receive_message().body,
            fmt::format("GET /x HTTP/1.1\r\nHost: cred.test:{}\r\nX: 1\r\n"
                        "Authorization: Bearer gh\r\n\r\n",
                        origin.port()));
  const auto decision = rig.wait_for_decisions(1).front();
  EXPECT_TRUE(decision.injected);
  EXPECT_EQ(decision.reason.find("Bearer"), std::string::npos);
}

TEST(PlainHttp, KeepsACredentialOffPlainHttpWhereThatIsRefused) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}), [](EgressSettings& settings) {
    settings.plaintext_injection = PlaintextInjection::refused;
  });
  Peer client = rig.connect();
  client.send(get("cred.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
  EXPECT_EQ(origin.connections(), 0);
}

TEST(PlainHttp, NeverTraces) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  for (const auto* method : {"TRACE", "trace", "Trace"}) {
    Peer client = rig.connect();
    client.send(fmt::format("{} / HTTP/1.1\r\nHost: cred.test:{}\r\n\r\n", method, origin.port()));
    EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
  }
  EXPECT_EQ(origin.connections(), 0);
}

TEST(PlainHttp, HoldsANewPolicyAgainstTheNextRequestOfAnOpenConnection) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"cred.test", {}, "old"}}));
  Peer client = rig.connect();
  client.send(get("cred.test", origin.port()));
  EXPECT_NE(client.receive_message().body.find("Bearer old"), std::string::npos);
  rig.set_policy(make_policy({{"cred.test", {}, "new"}}));
  client.send(get("cred.test", origin.port()));
  EXPECT_NE(client.receive_message().body.find("Bearer new"), std::string::npos);
  rig.set_policy(make_policy({{"allowed.test"}}));
  client.send(get("cred.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
}

TEST(PlainHttp, OneConnectionToAnOriginCarriesOneCredential) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"cred.test", {"GET"}, "reads"}, {"cred.test", {"PUT"}, "writes"}}));
  Peer client = rig.connect();
  client.send(get("cred.test", origin.port()));
  EXPECT_NE(client.receive_message().body.find("Bearer reads"), std::string::npos);
  client.send(
      fmt::format("PUT http://cred.test:{0}/ HTTP/1.1\r\nHost: cred.test:{0}\r\n"
                  "Content-Length: 0\r\n\r\n",
                  origin.port()));
  EXPECT_NE(client.receive_message().body.find("Bearer writes"), std::string::npos);
  EXPECT_EQ(origin.connections(), 2);
}

TEST(PlainHttp, ServesHttp10Clients) {
  TestOrigin origin([](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    peer.receive_all();
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(fmt::format("GET http://allowed.test:{}/ HTTP/1.0\r\n\r\n", origin.port()));
  EXPECT_EQ(client.receive_all(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello");
}

TEST(PlainHttp, RefusesAddressesWhateverNameLeadsThere) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}, Default::allow),
               [](EgressSettings& settings) { settings.address_judge = nullptr; });
  for (const char* name : {"allowed.test", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost",
                           "0.0.0.0", "127.1", "169.254.169.254", "10.0.0.1"}) {
    Peer client = rig.connect();
    client.send(get(name, origin.port()));
    const auto answer = client.receive_message();
    // "127.1" is no host name to begin with.
    const bool is_refused =
        answer.head.starts_with("HTTP/1.1 403 ") || answer.head.starts_with("HTTP/1.1 400 ");
    EXPECT_TRUE(is_refused) << name << answer.head << answer.body;
  }
  EXPECT_EQ(origin.connections(), 0);
}

TEST(PlainHttp, ARuleWithTheLiteralAddressOpensIt) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"127.0.0.1"}}),
               [](EgressSettings& settings) { settings.address_judge = nullptr; });
  Peer client = rig.connect();
  client.send(get("127.0.0.1", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
}

TEST(PlainHttp, NoRuleOpensAClosedEndpoint) {
  TestOrigin daemon(echo);
  ProxyRig rig(make_policy({{"127.0.0.1"}}), [&](EgressSettings& settings) {
    settings.address_judge = nullptr;
    settings.is_closed_endpoint = [port = daemon.port()](const auto& endpoint) {
      return endpoint.port() == port;
    };
  });
  Peer client = rig.connect();
  client.send(get("127.0.0.1", daemon.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
  EXPECT_EQ(daemon.connections(), 0);
}

TEST(PlainHttp, TriesTheNextAddressOfAName) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"twice.test"}}), [](EgressSettings& settings) {
    for (const char* address : {"127.0.0.9", "127.0.0.1"})
      settings.extra_hosts.push_back(
          ExtraHost{host("twice.test"), boost::asio::ip::make_address(address)});
  });
  Peer client = rig.connect();
  client.send(get("twice.test", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
}

TEST(PlainHttp, AnswersAPageWhereTheOriginCantBeReached) {
  std::uint16_t port = 0;
  {
    const auto closed = listen_on_loopback();
    port = port_of(closed);
  }
  ProxyRig rig(make_policy({{"allowed.test"}, {"*.invalid"}}));
  Peer client = rig.connect();
  client.send(get("allowed.test", port));
  const auto answer = client.receive_message();
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n"));
  EXPECT_NE(answer.body.find("Connection refused"), std::string::npos) << answer.body;
  client.send(get("no.such.invalid", port));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 502 "));
}

}  // namespace
}  // namespace daiv::proxy::testing
