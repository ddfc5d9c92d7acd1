#include <sys/resource.h>

#include <deque>
#include <tuple>
#include <vector>

#include "server_fixture.hpp"

namespace daiv::api::test {
namespace {

using std::chrono::milliseconds;

TEST_F(ServerTest, CutsAHeadThatComesTooSlowly) {
  settings.timeouts.head = milliseconds(200);
  start();
  Client client(port);
  client.send("GET /-/health/ HTTP/1.1\r\nHost: h\r\nX: ");
  EXPECT_EQ(client.read().status, 408);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(ServerTest, ClosesAConnectionThatKeepsQuiet) {
  settings.timeouts.head = milliseconds(200);
  settings.timeouts.idle = milliseconds(200);
  start();
  Client fresh(port);
  EXPECT_EQ(fresh.read_to_end(), "");
  Client used(port);
  used.send(request("GET", "/-/health/"));
  EXPECT_EQ(used.read().status, 200);
  EXPECT_EQ(used.read_to_end(), "");
}

TEST_F(ServerTest, CutsABodyThatTrickles) {
  settings.timeouts.body_window = milliseconds(300);
  settings.timeouts.linger = milliseconds(50);
  start();
  Client client(port);
  client.send(
      "POST /session/ HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\nContent-Length: 1000000\r\n\r\n");
  int sent = 0;
  while (client.send("x") && sent < 1000) {
    ++sent;
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_LT(sent, 100);
}

TEST_F(ServerTest, WaitsForABodyThatComesFastEnough) {
  settings.timeouts.body_window = milliseconds(100);
  settings.timeouts.min_body_bytes = 10;
  start();
  Client client(port);
  const std::string body = R"({"commands":[)" + std::string(400, ' ') + "]}";
  client.send(
      "POST /session/s/ HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  for (std::size_t at = 0; at < body.size(); at += 20) {
    client.send(std::string_view(body).substr(at, 20));
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(client.read().body, R"({"results":[]})");
}

TEST_F(ServerTest, ServesOthersBesideAThousandIdleConnections) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < 2100)
    GTEST_SKIP() << "RLIMIT_NOFILE is " << files.rlim_max << ", 2100 are needed";
  start();
  std::deque<Client> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.emplace_back(port);
    if (i % 2 == 0) idle.back().send("GET /-/health/ HTTP/1.1\r\nHo");
  }
  Client client(port);
  client.send(request("GET", "/-/health/"));
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(ServerTest, TakesNoMoreConnectionsThanItsLimit) {
  settings.limits.max_connections = 2;
  start();
  Client first(port);
  Client second(port);
  for (Client* client : {&first, &second}) {
    client->send(request("GET", "/-/health/"));
    EXPECT_EQ(client->read().status, 200);
  }
  Client third(port);
  third.send(request("GET", "/-/metrics"));
  first.close();
  EXPECT_TRUE(third.read().body.contains("daiv_sandbox_http_connections 2\n"));
}

TEST_F(ServerTest, RefusesATenMegabyteHeaderLine) {
  start();
  Client client(port);
  client.send("GET /-/health/ HTTP/1.1\r\nHost: h\r\nX: ");
  const std::string piece(100'000, 'x');
  for (int i = 0; i < 100; ++i) client.send(piece);
  EXPECT_EQ(client.read().status, 431);
}

TEST_F(ServerTest, RefusesAnEndlessChunkedBody) {
  start();
  Client client(port);
  client.send(
      "POST /session/ HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 40; ++i) client.send(chunk);
  const Answer answer = client.read();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.fields.at("connection"), "close");
}

TEST_F(ServerTest, AsksForNoBodyThatItRefuses) {
  start();
  Client client(port);
  client.send(
      "POST /session/ HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\nExpect: 100-continue\r\n"
      "Content-Length: 5000000\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
}

// Each route has a limit of its own, whatever way the length is told.
TEST_F(ServerTest, RefusesBodiesAboveTheLimitOfTheirRoute) {
  settings.limits.max_json_bytes = 1000;
  settings.limits.max_run_bytes = 2000;
  settings.limits.max_file_bytes = 3000;
  start();
  const std::string json = "Content-Type: application/json\r\n";
  for (const auto& [method, path, limit] :
       std::vector<std::tuple<std::string, std::string, std::size_t>>{
           {"POST", "/session/", 1000},
           {"PUT", "/session/s/egress/", 1000},
           {"POST", "/session/s/fs/ls", 1000},
           {"POST", "/session/s/fs/grep", 1000},
           {"POST", "/session/s/", 2000},
           {"POST", "/session/s/fs/write", 3000},
           {"POST", "/session/s/fs/edit", 3000}}) {
    Client client(port);
    client.send(request(method, path, std::string(limit, ' '), json));
    EXPECT_EQ(client.read().status, 422) << path;
    client.send(request(method, path, std::string(limit + 1, ' '), json));
    const Answer told = client.read();
    EXPECT_EQ(told.status, 413) << path;
    EXPECT_EQ(told.body, R"({"detail":"Request body too large"})") << path;
    Client other(port);
    other.send(request(method, path, "", json + "Transfer-Encoding: chunked\r\n"));
    other.send("10000\r\n" + std::string(0x10000, ' ') + "\r\n0\r\n\r\n");
    EXPECT_EQ(other.read().status, 413) << path;
  }
}

TEST_F(ServerTest, AsksForABodyThatItWants) {
  start();
  Client client(port);
  const std::string body = R"({"commands":[]})";
  client.send(
      "POST /session/s/ HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\nExpect: 100-continue\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send(body);
  EXPECT_EQ(client.read().body, R"({"results":[]})");
}

TEST_F(ServerTest, AnswersNothingBehindAnAmbiguousRequest) {
  start();
  Client client(port);
  client.send(
      "POST /session/s/ HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: "
      "chunked\r\n\r\n"
      "0\r\n\r\nGET /-/health/ HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read().status, 400);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(ServerTest, ReadsThePlainRestOfABodyThatNobodyWants) {
  start();
  Client client(port);
  client.send(request("POST", "/nope", std::string(100'000, 'x')) + request("GET", "/-/health/"));
  EXPECT_EQ(client.read().status, 404);
  EXPECT_EQ(client.read().body, R"({"status":"ok"})");
}

TEST_F(ServerTest, LeavesAClientThatDoesNotReadItsAnswer) {
  settings.timeouts.write = milliseconds(100);
  settings.timeouts.linger = milliseconds(50);
  start();
  Client client(port);
  client.send(json_request("/session/s/", R"({"commands":["big 50000000"]})"));
  std::string metrics;
  Client other(port);
  // Status 0: gone in the middle of its answer.
  for (int i = 0; i < 1000 && !metrics.contains(R"(route="/session/{session_id}/",status="0"} 1)");
       ++i) {
    other.send(request("GET", "/-/metrics"));
    metrics = other.read().body;
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(metrics.contains(R"(route="/session/{session_id}/",status="0"} 1)"));
}

}  // namespace
}  // namespace daiv::api::test
