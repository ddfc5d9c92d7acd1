#include <fmt/format.h>
#include <gtest/gtest.h>

#include <future>

#include "proxy_rig.hpp"

namespace daiv::proxy::testing {
namespace {

std::string post(std::uint16_t port, const std::string& rest) {
  return fmt::format("POST http://allowed.test:{0}/ HTTP/1.1\r\nHost: allowed.test:{0}\r\n{1}",
                     port, rest);
}

std::string get(std::uint16_t port, const std::string& method = "GET") {
  return fmt::format("{1} http://allowed.test:{0}/ HTTP/1.1\r\nHost: allowed.test:{0}\r\n\r\n",
                     port, method);
}

// An origin that reads a head and then says `answer`, and closes if it is told to.
enum class After { stay, close, reset };
TestOrigin::Script answering(std::string answer, After after) {
  return [answer = std::move(answer), after](Peer& peer) {
    while (!peer.receive_until("\r\n\r\n").empty()) {
      peer.send(answer);
      if (after == After::close) return;
      if (after == After::reset) return peer.reset();
    }
  };
}

TEST(Streaming, ForwardsChunksAndTrailersOfAnUpload) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(post(origin.port(),
                   "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                   "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\nContent-Length: 9\r\n"
                   "Authorization: no\r\n\r\n"));
  const auto answer = client.receive_message();
  EXPECT_TRUE(answer.body.ends_with("\r\n\r\nabcde|X-Sum: 5")) << answer.body;
  client.send(get(origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
}

TEST(Streaming, AnswersExpectContinueItself) {
  TestOrigin origin(echo);
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(post(origin.port(), "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
  EXPECT_EQ(client.receive_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  const auto answer = client.receive_message();
  EXPECT_EQ(answer.body.find("Expect"), std::string::npos);
  EXPECT_TRUE(answer.body.ends_with("\r\n\r\nhello"));
}

TEST(Streaming, AsksForNoBodyThatItRefuses) {
  ProxyRig rig(make_policy({}));
  Peer client = rig.connect();
  client.send(post(80, "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(client.at_end());
}

TEST(Streaming, PassesEachEventOnBeforeTheNextIsMade) {
  std::promise<void> first_seen;
  auto seen = first_seen.get_future().share();
  TestOrigin origin([seen](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    peer.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n");
    seen.wait();
    peer.send("9\r\ndata: 2\n\n\r\n0\r\n\r\n");
    peer.receive_all();
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get(origin.port()));
  EXPECT_NE(client.receive_until("data: 1\n\n").find("data: 1"), std::string::npos);
  first_seen.set_value();
  EXPECT_NE(client.receive_until("data: 2\n\n").find("data: 2"), std::string::npos);
}

TEST(Streaming, PassesTheHeadOnBeforeTheBodyIsThere) {
  std::promise<void> head_seen;
  auto seen = head_seen.get_future().share();
  TestOrigin origin([seen](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    seen.wait();
    peer.send("ok");
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get(origin.port()));
  EXPECT_EQ(client.receive_until("\r\n\r\n"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
  head_seen.set_value();
  EXPECT_EQ(client.receive_bytes(2), "ok");
}

TEST(Streaming, PassesPartsOfAnUploadOnAsTheyCome) {
  std::promise<void> half_seen;
  TestOrigin origin([&](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    EXPECT_EQ(peer.receive_until("half"), "4\r\nhalf");
    half_seen.set_value();
    peer.receive_until("0\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(post(origin.port(), "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"));
  half_seen.get_future().wait();
  client.send("4\r\nrest\r\n0\r\n\r\n");
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
}

TEST(Streaming, DeliversAnAnswerThatComesBeforeTheUploadIsThrough) {
  TestOrigin origin([](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    peer.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nwho?");
    peer.receive_all();
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(post(origin.port(), "Content-Length: 10\r\n\r\nhalf"));
  const auto answer = client.receive_message();
  EXPECT_TRUE(answer.head.starts_with("HTTP/1.1 401 "));
  EXPECT_EQ(answer.body, "who?");
  client.finish_sending();
  EXPECT_TRUE(client.at_end());
}

TEST(Streaming, MovesLargeBodiesBothWays) {
  constexpr std::size_t size = 24U << 20;
  TestOrigin origin(
      [](Peer& peer) {
        const auto message = peer.receive_message();
        peer.send(
            fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", message.body.size()));
        peer.send(message.body);
        peer.receive_all();
      },
      origin_leaf("allowed.test"));
  ProxyRig rig(make_policy({{"allowed.test"}}, Default::deny, Intercept::all));
  Peer client = rig.connect_tls("allowed.test", origin.port());
  client.send(fmt::format("POST / HTTP/1.1\r\nHost: allowed.test:{}\r\nContent-Length: {}\r\n\r\n",
                          origin.port(), size));
  client.send(std::string(size, 'z'));
  EXPECT_EQ(client.receive_message().body, std::string(size, 'z'));
}

TEST(Streaming, ForwardsAnswersWithoutABody) {
  for (const char* status : {"204 No Content", "304 Not Modified"}) {
    TestOrigin origin(
        answering(fmt::format("HTTP/1.1 {}\r\nETag: x\r\n\r\n", status), After::stay));
    ProxyRig rig(make_policy({{"allowed.test"}}));
    Peer client = rig.connect();
    for (int i = 0; i < 2; ++i) {
      client.send(get(origin.port()));
      EXPECT_EQ(client.receive_until("\r\n\r\n"),
                fmt::format("HTTP/1.1 {}\r\nETag: x\r\n\r\n", status));
    }
    EXPECT_EQ(origin.connections(), 1);
  }
  TestOrigin origin(answering("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", After::stay));
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  for (int i = 0; i < 2; ++i) {
    client.send(get(origin.port(), "HEAD"));
    EXPECT_EQ(client.receive_until("\r\n\r\n"), "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  }
}

TEST(Streaming, DoesNotReuseAnOriginThatSentMoreThanItsAnswer) {
  TestOrigin origin(
      answering("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n"
                "Content-Length: 4\r\n\r\nevil",
                After::stay));
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  for (int i = 0; i < 2; ++i) {
    client.send(get(origin.port()));
    EXPECT_EQ(client.receive_until("\r\n\r\n"), "HTTP/1.1 204 No Content\r\n\r\n");
  }
  EXPECT_EQ(origin.connections(), 2);
}

TEST(Streaming, PassesACloseDelimitedAnswer) {
  TestOrigin origin(answering("HTTP/1.1 200 OK\r\n\r\nall of it", After::close));
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get(origin.port()));
  EXPECT_EQ(client.receive_all(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it");
}

TEST(Streaming, Is502WhereTheOriginAnswersNothingThatIsHttp) {
  const std::pair<const char*, After> table[] = {
      {"", After::close},
      {"", After::reset},
      {"garbage\r\n\r\n", After::close},
      {"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n", After::stay},
      {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       After::stay},
      {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", After::stay},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", After::stay},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", After::stay},
      {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
       After::stay},
      {"HTTP/1.1 200 OK\nContent-Length: 0\n\n", After::stay},
      {"HTTP/1.1 200 OK\r\nX: ", After::close},
  };
  for (const auto& [answer, after] : table) {
    TestOrigin origin(answering(answer, after));
    ProxyRig rig(make_policy({{"allowed.test"}}));
    Peer client = rig.connect();
    client.send(get(origin.port()));
    EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 502 ")) << answer;
  }
}

TEST(Streaming, BreaksOffWhereABodyDoes) {
  std::promise<void> head_seen;
  auto seen = head_seen.get_future().share();
  TestOrigin origin([seen](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    seen.wait();
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get(origin.port()));
  client.receive_until("half");
  head_seen.set_value();
  EXPECT_TRUE(client.at_end());
}

TEST(Streaming, Is502WhereAnUploadMeetsAReset) {
  TestOrigin origin([](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    peer.reset();
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(post(origin.port(), "Content-Length: 10\r\n\r\nhalf"));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 502 "));
}

TEST(Streaming, SendsARequestAgainThatMetAClosedConnection) {
  std::atomic<int> served = 0;
  TestOrigin origin([&](Peer& peer) {
    if (peer.receive_until("\r\n\r\n").empty()) return;
    ++served;
    // And closes, although it says nothing of it.
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  for (int i = 0; i < 5; ++i) {
    client.send(get(origin.port()));
    EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 200 "));
  }
  EXPECT_EQ(served, 5);
}

TEST(Streaming, Is502WhereInterimAnswersNeverEnd) {
  TestOrigin origin([](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    while (peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")) {
    }
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(get(origin.port()));
  EXPECT_NE(client.receive_until("HTTP/1.1 502 ").find("HTTP/1.1 502 "), std::string::npos);
}

TEST(Streaming, Is504WhereTheOriginKeepsQuiet) {
  TestOrigin origin([](Peer& peer) { peer.receive_all(); });
  ProxyRig rig(make_policy({{"allowed.test"}}), [](EgressSettings& settings) {
    settings.timeouts.answer = std::chrono::milliseconds(200);
  });
  Peer client = rig.connect();
  client.send(get(origin.port()));
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 504 "));
}

TEST(Streaming, Is400WhereAnUploadsFramingBreaksLater) {
  std::promise<void> half_seen;
  std::promise<std::string> rest;
  TestOrigin origin([&](Peer& peer) {
    peer.receive_until("half");
    half_seen.set_value();
    rest.set_value(peer.receive_all());
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(post(origin.port(), "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"));
  half_seen.get_future().wait();
  client.send("junk\r\n");
  EXPECT_TRUE(client.receive_message().head.starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(rest.get_future().get(), "\r\n");
}

TEST(WebSocket, PassesBothWaysWithTheInjectedHeader) {
  TestOrigin origin(
      [](Peer& peer) {
        const auto head = peer.receive_until("\r\n\r\n");
        EXPECT_NE(head.find("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"), std::string::npos)
            << head;
        EXPECT_NE(head.find("\r\nAuthorization: Bearer gh\r\n"), std::string::npos);
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Extensions: x\r\n\r\nfirst");
        peer.send(peer.receive_until("!"));
        peer.receive_all();
      },
      origin_leaf("cred.test"));
  ProxyRig rig(make_policy({{"cred.test", {}, "gh"}}));
  Peer client = rig.connect_tls("cred.test", origin.port());
  client.send(
      fmt::format("GET /ws HTTP/1.1\r\nHost: cred.test:{}\r\n"
                  "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
                  "Sec-WebSocket-Key: abc\r\n\r\n",
                  origin.port()));
  const auto head = client.receive_until("\r\n\r\n");
  EXPECT_TRUE(
      head.starts_with("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Extensions: x\r\n"))
      << head;
  EXPECT_EQ(client.receive_bytes(5), "first");
  client.send("\x81\x05hello!");
  EXPECT_EQ(client.receive_until("!"), "\x81\x05hello!");
}

TEST(WebSocket, IsCutByAPolicyThatTakesItsHostOut) {
  TestOrigin origin([](Peer& peer) {
    peer.receive_until("\r\n\r\n");
    peer.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\n\r\n");
    peer.receive_all();
  });
  ProxyRig rig(make_policy({{"allowed.test"}}));
  Peer client = rig.connect();
  client.send(
      fmt::format("GET /ws HTTP/1.1\r\nHost: allowed.test:{}\r\nConnection: Upgrade\r\n"
                  "Upgrade: websocket\r\n\r\n",
                  origin.port()));
  EXPECT_TRUE(client.receive_until("\r\n\r\n").starts_with("HTTP/1.1 101 "));
  rig.set_policy(make_policy({}));
  EXPECT_TRUE(client.at_end());
}

}  // namespace
}  // namespace daiv::proxy::testing
