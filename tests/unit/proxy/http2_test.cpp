#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "http2_peer.hpp"
#include "proxy_rig.hpp"

// HTTP/2 through the proxy, with clients and origins of either version.
namespace daiv::proxy::testing {
namespace {

std::string at(const std::string& name, std::uint16_t port) {
  return fmt::format("{}:{}", name, port);
}

std::vector<Field> post(const std::string& authority) {
  return {{":method", "POST"}, {":scheme", "https"}, {":authority", authority}, {":path", "/up"}};
}

TEST(Http2, InjectsIntoEveryRequestToAnOriginOfHttp2) {
  TestOrigin origin(serve_http2(echo_http2), origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  for (int i = 0; i < 3; ++i) {
    const auto id = client.get(at("cred.test", origin.port()), {{"authorization", "mine"}});
    const auto answer = client.finish(id);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, fmt::format(":method: GET\n:scheme: https\n:authority: cred.test:{}\n"
                                       ":path: /x\nauthorization: Bearer gh\n\n",
                                       origin.port()));
  }
  EXPECT_EQ(origin.connections(), 1);
  EXPECT_EQ(rig.counters().injections, 3U);
  EXPECT_EQ(rig.wait_for_decisions(3).size(), 3U);
  EXPECT_EQ(rig.decisions().front(), "GET cred.test allowed 200");
}

TEST(Http2, TranslatesForAnOriginOfHttp1) {
  TestOrigin origin(echo, origin_leaf("cred.test"), only_http1);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  for (int i = 0; i < 3; ++i) {
    const auto id = client.get(at("cred.test", origin.port()),
                               {{"cookie", "a=1"}, {"cookie", "b=2"}, {"te", "trailers"}});
    const auto answer = client.finish(id);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, fmt::format("GET /x HTTP/1.1\r\nHost: cred.test:{}\r\n"
                                       "Authorization: Bearer gh\r\ncookie: a=1; b=2\r\n\r\n",
                                       origin.port()));
    EXPECT_EQ(value_of(answer.fields, "x-origin"), "yes");
  }
  EXPECT_EQ(origin.connections(), 1);
}

// The origin may close an idle connection at any moment, and what was lost with it must not be sent
// again.
TEST(Http2, SendsWhatCanNotBeRepeatedOnAConnectionOfItsOwn) {
  TestOrigin origin(echo, origin_leaf("cred.test"), only_http1);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  const std::string authority = at("cred.test", origin.port());
  EXPECT_EQ(client.finish(client.get(authority)).status, 200);
  const auto id = client.request(post(authority), false);
  client.session().send_body(id, "abc");
  client.session().end_body(id, {});
  EXPECT_EQ(client.finish(id).status, 200);
  EXPECT_EQ(origin.connections(), 2);
  EXPECT_EQ(client.finish(client.get(authority)).status, 200);
  EXPECT_EQ(origin.connections(), 2);
}

TEST(Http2, FramesABodyOfUnknownLengthForAnOriginOfHttp1) {
  TestOrigin origin(echo, origin_leaf("cred.test"), only_http1);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  const auto id = client.request(post(at("cred.test", origin.port())), false);
  client.session().send_body(id, "DELETE / HTTP/1.1\r\n\r\n");
  client.session().end_body(id, {{"x-sum", "1"}, {"authorization", "mine"}});
  const auto answer = client.finish(id);
  EXPECT_NE(answer.body.find("Transfer-Encoding: chunked\r\n"), std::string::npos) << answer.body;
  EXPECT_TRUE(answer.body.ends_with("\r\n\r\nDELETE / HTTP/1.1\r\n\r\n|x-sum: 1")) << answer.body;
}

TEST(Http2, KeepsTheLengthOfABodyForAnOriginOfHttp1) {
  TestOrigin origin(echo, origin_leaf("cred.test"), only_http1);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  auto fields = post(at("cred.test", origin.port()));
  fields.push_back({"content-length", "3"});
  const auto id = client.request(fields, false);
  client.session().send_body(id, "abc");
  client.session().end_body(id, {});
  const auto answer = client.finish(id);
  EXPECT_NE(answer.body.find("content-length: 3\r\n"), std::string::npos) << answer.body;
  EXPECT_TRUE(answer.body.ends_with("\r\n\r\nabc")) << answer.body;
}

TEST(Http2, AnswersARefusedMethodOnItsStreamAlone) {
  TestOrigin origin(serve_http2(echo_http2), origin_leaf("limited.test"), only_http2);
  ProxyRig rig(make_policy({{"limited.test", {"GET"}}}));
  Http2Peer client = connect_http2(rig, "limited.test", origin.port());
  const auto refused = client.request(post(at("limited.test", origin.port())), false);
  const auto served = client.get(at("limited.test", origin.port()));
  const auto refusal = client.finish(refused);
  EXPECT_EQ(refusal.status, 403);
  EXPECT_TRUE(refusal.body.starts_with("egress: destination not allowed\n")) << refusal.body;
  EXPECT_EQ(client.finish(served).status, 200);
}

TEST(Http2, RefusesOtherHostsInsideATunnel) {
  TestOrigin origin(serve_http2(echo_http2), origin_leaf("other.test"), only_http2);
  ProxyRig rig(
      make_policy({{"cred.test", {}, "gh"}, {"other.test"}}, Default::deny, Intercept::all));
  const std::string mine = at("other.test", origin.port());
  Http2Peer client = connect_http2(rig, "other.test", origin.port());
  const std::vector<std::vector<Field>> spoofs{
      {{":method", "GET"},
       {":scheme", "https"},
       {":authority", at("cred.test", origin.port())},
       {":path", "/"}},
      {{":method", "GET"}, {":scheme", "https"}, {":authority", "cred.test"}, {":path", "/"}},
      {{":method", "GET"}, {":scheme", "https"}, {":path", "/"}, {"host", "cred.test"}},
      {{":method", "GET"},
       {":scheme", "https"},
       {":authority", mine},
       {":path", "/"},
       {"host", "cred.test"}},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", mine}, {":path", "/"}},
  };
  for (const auto& spoof : spoofs) {
    const auto answer = client.finish(client.request(spoof));
    EXPECT_TRUE(answer.status == 421 || answer.status == 400) << answer.status;
  }
  EXPECT_EQ(rig.counters().injections, 0U);
  EXPECT_EQ(origin.connections(), 0);
  EXPECT_EQ(client.finish(client.get(mine)).status, 200);
}

TEST(Http2, ResetsRequestsThatAreNone) {
  TestOrigin origin(serve_http2(echo_http2), origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  const std::string mine = at("cred.test", origin.port());
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  const std::vector<std::vector<Field>> bad{
      {{":method", "GET"}, {":scheme", "https"}, {":authority", mine}},
      {{":method", "GET"},
       {":scheme", "https"},
       {":authority", mine},
       {":path", "/"},
       {"connection", "close"}},
      {{":method", "GET"},
       {":scheme", "https"},
       {":authority", mine},
       {":path", "/"},
       {"transfer-encoding", "chunked"}},
      {{":method", "GET"},
       {":scheme", "https"},
       {":authority", mine},
       {":path", "/"},
       {"content-length", "3"}},
      {{":method", "GET"},
       {":scheme", "https"},
       {":authority", mine},
       {":path", "/"},
       {"x", "a\nb: c"}},
      {{":method", "CONNECT"}, {":authority", mine}},
  };
  for (const auto& fields : bad) {
    const auto answer = client.finish(client.request(fields));
    EXPECT_TRUE(answer.status == 0 || answer.status == 400) << answer.status;
  }
  EXPECT_EQ(origin.connections(), 0);
  EXPECT_EQ(rig.wait_for_decisions(bad.size()).size(), bad.size());
  EXPECT_EQ(client.finish(client.get(mine)).status, 200);
}

TEST(Http2, HoldsANewPolicyAgainstTheNextStream) {
  TestOrigin origin(serve_http2(echo_http2), origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "old"}}));
  const std::string mine = at("cred.test", origin.port());
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  EXPECT_NE(client.finish(client.get(mine)).body.find("Bearer old"), std::string::npos);
  rig.set_policy(make_policy({{"cred.test", {}, "new"}}));
  EXPECT_NE(client.finish(client.get(mine)).body.find("Bearer new"), std::string::npos);
  rig.set_policy(make_policy({}));
  EXPECT_EQ(client.finish(client.get(mine)).status, 403);
  EXPECT_EQ(origin.connections(), 2);  // one for each credential
}

TEST(Http2, PassesTrailersBothWays) {
  TestOrigin origin(serve_http2([](Http2Session& session, std::int32_t id, const Http2Head& head,
                                   const std::string& body) {
                      const std::string te = value_of(head.fields, "te");
                      const std::string sum = value_of(session.find(id)->trailers, "x-sum");
                      session.send_head(id, {{":status", "200"}}, false);
                      session.send_body(id, body);
                      session.end_body(id, {{"grpc-status", "0"}, {"x-seen", te + "," + sum}});
                    }),
                    origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  auto fields = post(at("cred.test", origin.port()));
  fields.push_back({"te", "trailers"});
  const auto id = client.request(fields, false);
  client.session().send_body(id, "abc");
  client.session().end_body(id, {{"x-sum", "3"}});
  const auto answer = client.finish(id);
  EXPECT_EQ(answer.body, "abc");
  EXPECT_EQ(value_of(answer.trailers, "grpc-status"), "0");
  EXPECT_EQ(value_of(answer.trailers, "x-seen"), "trailers,3");
}

// Each side waits for the other's word before it says its next.
TEST(Http2, PassesBytesOnAsTheyComeBothWays) {
  TestOrigin origin(
      [](Peer& socket) {
        Http2Peer peer(std::move(socket), Http2Role::server);
        peer.run_until([&] {
          Http2Session& session = peer.session();
          for (const auto id : session.take_changed()) {
            Http2Stream* stream = session.find(id);
            if (stream == nullptr) continue;
            if (!stream->heads.empty()) session.send_head(id, {{":status", "200"}}, false);
            stream->heads.clear();
            session.send_body(id, std::exchange(stream->received, {}));
            session.consume(id, stream->unconsumed);
            if (stream->ended) session.end_body(id, {});
          }
          return false;
        });
      },
      origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  const auto id = client.request(post(at("cred.test", origin.port())), false);
  for (const std::string word : {"one", "two", "three"}) {
    client.session().send_body(id, word);
    ASSERT_TRUE(client.run_until([&] { return client.session().find(id)->received == word; }));
    client.session().find(id)->received.clear();
  }
  client.session().end_body(id, {});
  EXPECT_TRUE(client.finish(id).whole);
}

TEST(Http2, HoldsTheOriginBackWhenTheClientDoesNotRead) {
  constexpr std::size_t size = 8U << 20;
  TestOrigin origin(
      serve_http2([](Http2Session& session, std::int32_t id, const Http2Head&, const std::string&) {
        session.send_head(id, {{":status", "200"}}, false);
        session.send_body(id, std::string(size, 'x'));
        session.end_body(id, {});
      }),
      origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  const std::string mine = at("cred.test", origin.port());
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  const auto stalled = client.get(mine);
  ASSERT_TRUE(client.run_until(
      [&] { return client.session().find(stalled)->unconsumed >= http2_connection_window; }));
  // The windows of the client are shut: what there is more of waits at the origin, and a stream
  // that is taken goes on beside it once the connection's is opened.
  client.session().widen(1U << 20);
  const auto id = client.get(mine);
  EXPECT_EQ(client.finish(id).body.size(), size);
  EXPECT_LE(client.session().find(stalled)->received.size(), http2_stream_window);
  EXPECT_EQ(client.finish(stalled).body.size(), size);
}

TEST(Http2, PassesALargeUploadOn) {
  TestOrigin origin(serve_http2([](Http2Session& session, std::int32_t id, const Http2Head&,
                                   const std::string& body) {
                      session.send_head(id, {{":status", "200"}}, false);
                      session.send_body(id, std::to_string(body.size()));
                      session.end_body(id, {});
                    }),
                    origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  const auto id = client.request(post(at("cred.test", origin.port())), false);
  client.session().send_body(id, std::string(5'000'000, 'u'));
  client.session().end_body(id, {});
  EXPECT_EQ(client.finish(id).body, "5000000");
}

TEST(Http2, GivesTheOriginUpWithTheClientsStream) {
  std::promise<void> arrived;
  std::promise<Http2Error> ended;
  TestOrigin origin(
      [&](Peer& socket) {
        Http2Peer peer(std::move(socket), Http2Role::server);
        std::int32_t id = 0;
        peer.run_until([&] {
          for (const auto changed : peer.session().take_changed())
            if (std::exchange(id, changed) == 0) arrived.set_value();
          const Http2Stream* stream = peer.session().find(id);
          return stream != nullptr && stream->closed;
        });
        const Http2Stream* stream = peer.session().find(id);
        ended.set_value(stream == nullptr ? Http2Error::none : stream->error);
      },
      origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  const auto id = client.get(at("cred.test", origin.port()));
  arrived.get_future().wait();
  client.session().reset(id, Http2Error::cancel);
  client.flush();
  EXPECT_EQ(ended.get_future().get(), Http2Error::cancel);
  EXPECT_EQ(rig.wait_for_decisions(1).size(), 1U);
}

TEST(Http2, AnswersForAnOriginThatCanNotBeReached) {
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  const std::uint16_t closed = port_of(listen_on_loopback());
  Http2Peer client = connect_http2(rig, "cred.test", closed);
  EXPECT_EQ(client.finish(client.get(at("cred.test", closed))).status, 502);
  EXPECT_EQ(rig.counters().upstream_failures, 1U);
}

TEST(Http2, SpeaksHttp1ToAnOriginForAClientOfHttp1) {
  TestOrigin origin(echo, origin_leaf("cred.test"), only_http2 + only_http1);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  client.send(fmt::format("GET /x HTTP/1.1\r\nHost: cred.test:{}\r\n\r\n", origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
}

TEST(Http2, PassesAnInterimAnswerOn) {
  TestOrigin origin(
      serve_http2([](Http2Session& session, std::int32_t id, const Http2Head&, const std::string&) {
        session.send_interim(id, {{":status", "103"}, {"link", "</a>"}});
        session.send_head(id, {{":status", "204"}}, true);
      }),
      origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  const auto id = client.get(at("cred.test", origin.port()));
  ASSERT_TRUE(client.run_until([&] { return client.session().find(id)->ended; }));
  const auto& heads = client.session().find(id)->heads;
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_EQ(value_of(heads.front().fields, ":status"), "103");
  EXPECT_EQ(value_of(heads.back().fields, ":status"), "204");
}

TEST(Http2, AsksAnotherConnectionAfterTheOriginsGoAway) {
  std::atomic<int> served = 0;
  TestOrigin origin(
      [&](Peer& socket) {
        Http2Peer peer(std::move(socket), Http2Role::server);
        std::int32_t id = 0;
        peer.run_until([&] {
          for (const auto changed : peer.session().take_changed()) {
            Http2Stream* stream = peer.session().find(changed);
            if (stream == nullptr || stream->heads.empty()) continue;
            id = changed;
            const Http2Head head = std::exchange(stream->heads, {}).front();
            echo_http2(peer.session(), id, head, {});
            ++served;
          }
          peer.flush();
          const Http2Stream* stream = peer.session().find(id);
          return stream != nullptr && stream->end_sent;
        });
        peer.session().go_away(Http2Error::none);
        peer.flush();
        peer.run_until([] { return false; });
      },
      origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(client.finish(client.get(at("cred.test", origin.port()))).status, 200);
  EXPECT_EQ(served, 3);
}

TEST(Http2, EndsTheConnectionThatResetsItsRequestsAtOnce) {
  TestOrigin origin(serve_http2(echo_http2), origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  bool open = true;
  for (std::uint64_t i = 0; open && i < 4 * http2_reset_burst; ++i) {
    const auto id = client.get(at("cred.test", origin.port()));
    client.session().reset(id, Http2Error::cancel);
    open = id > 0 && client.flush();
    client.session().forget(id);
  }
  for (bool more = true; more && !client.session().is_draining();) {
    const std::string bytes = client.peer().receive();
    more = !bytes.empty() && client.session().feed(bytes);
  }
  EXPECT_TRUE(client.session().is_draining());
}

// A client that asks for acknowledgements and takes none (CVE-2019-9512, CVE-2019-9515).
TEST(Http2, EndsTheConnectionThatFloodsIt) {
  TestOrigin origin(echo, origin_leaf("cred.test"), only_http1);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  using namespace std::string_literals;
  const std::string settings = "\0\0\0\x04\0\0\0\0\0"s;
  const std::string ping = "\0\0\x08\x06\0\0\0\0\0"s + "12345678";
  for (const std::string& frame : {settings, ping}) {
    Peer client = rig.connect_tls("cred.test", origin.port(), "h2");
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings);
    std::string many;
    while (many.size() < 16384) many += frame;
    std::size_t sent = 0;
    while (sent < (64U << 20) && client.send(many)) sent += many.size();
    EXPECT_LT(sent, 64U << 20);
    Http2Peer other = connect_http2(rig, "cred.test", origin.port());
    EXPECT_EQ(other.finish(other.get(at("cred.test", origin.port()))).status, 200);
  }
}

TEST(Http2, RefusesAHeadThatIsTooLarge) {
  TestOrigin origin(serve_http2(echo_http2), origin_leaf("cred.test"), only_http2);
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Http2Peer client = connect_http2(rig, "cred.test", origin.port());
  std::vector<Field> many;
  for (int i = 0; i < 1200; ++i) many.push_back({"x", "y"});
  EXPECT_EQ(client.finish(client.get(at("cred.test", origin.port()), many)).status, 431);
  const std::vector<Field> large{{"x-large", std::string(60U << 10, 'l')}};
  EXPECT_EQ(client.finish(client.get(at("cred.test", origin.port()), large)).status, 200);
}

}  // namespace
}  // namespace daiv::proxy::testing
