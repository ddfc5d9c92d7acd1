#include "api/server.hpp"

#include "api/base64.hpp"
#include "api/json_decode.hpp"
#include "server_fixture.hpp"
#include "sessions/fs_messages.hpp"

namespace daiv::api::test {
namespace {

using std::chrono::milliseconds;

TEST_F(ServerTest, ServesOpenRoutesWithoutAKey) {
  start();
  Client client(port);
  client.send("GET /-/health/ HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read().body, R"({"status":"ok"})");
  client.send("GET /api/v1/-/version/ HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read().body, R"({"version":"v1.2.3"})");
  client.send("GET /-/metrics HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(client.read().body.contains(
      R"(daiv_sandbox_http_requests_total{method="GET",route="/-/health/",status="200"} 1)"));
  client.send("GET /docs HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read().fields.at("content-type"), "text/html; charset=utf-8");
}

TEST_F(ServerTest, DescribesItself) {
  start();
  Client client(port);
  client.send(request("GET", "/openapi.json"));
  const auto document = decode_json(client.read().body);
  ASSERT_TRUE(document);
  EXPECT_EQ(*document->find("info")->find("version")->string(), "v1.2.3");
  EXPECT_EQ(*document->find("servers")->array()->front().find("url")->string(), "/api/v1");
  client.send(request("HEAD", "/openapi.json"));
  const Answer head = client.read(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_GT(std::stoul(head.fields.at("content-length")), 1000U);
  client.send(request("GET", "/-/health/"));
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  Client client(port);
  std::string requests;
  for (int i = 0; i < 50; ++i)
    requests += json_request("/session/s/", R"({"commands":["n)" + std::to_string(i) + R"("]})");
  client.send(requests);
  for (int i = 0; i < 50; ++i) {
    const std::string name = "n" + std::to_string(i);
    EXPECT_EQ(client.read().body, R"({"results":[{"command":")" + name + R"(","output":")" + name +
                                      R"(","exit_code":0}]})");
  }
}

TEST_F(ServerTest, RedirectsToTheNameThatTheClientUsed) {
  start();
  Client client(port);
  client.send("DELETE /api/v1/session/a%20b?force=true HTTP/1.1\r\nHost: example.org:81\r\n\r\n");
  const Answer answer = client.read();
  EXPECT_EQ(answer.status, 307);
  EXPECT_EQ(answer.fields.at("location"), "http://example.org:81/api/v1/session/a%20b/?force=true");
  EXPECT_EQ(answer.fields.at("content-length"), "0");
}

TEST_F(ServerTest, ReadsTheForceFlag) {
  start();
  Client client(port);
  client.send(request("DELETE", "/session/s/?force=maybe"));
  const Answer refused = client.read();
  EXPECT_EQ(refused.status, 422);
  EXPECT_EQ(
      refused.body,
      R"({"detail":[{"type":"bool_parsing","loc":["query","force"],"msg":"Input should be a valid )"
      R"(boolean, unable to interpret input","input":"maybe"}]})");
  client.send(request("DELETE", "/session/s/?force=yes"));
  const Answer done = client.read();
  EXPECT_EQ(done.status, 204);
  EXPECT_FALSE(done.fields.contains("content-length"));
  on_server([this] { EXPECT_EQ(service.last_close, sessions::CloseMode::remove); });
}

TEST_F(ServerTest, PassesWhatASessionIsCreatedWith) {
  start();
  Client client(port);
  client.send(json_request(
      "/session/",
      R"({"base_image":"i","environment":{"A":"b"},"memory_bytes":"8388608","cpus":1})"));
  EXPECT_EQ(client.read().body, R"({"session_id":"session-1"})");
  on_server([this] {
    ASSERT_EQ(service.created.size(), 1U);
    EXPECT_EQ(service.created[0].base_image, "i");
    EXPECT_EQ(service.created[0].environment.size(), 1U);
    EXPECT_EQ(service.created[0].memory_bytes, 8388608U);
    EXPECT_EQ(service.created[0].cpus, 1.0);
  });
}

TEST_F(ServerTest, RefusesWhatNoSessionCanHaveWithAReason) {
  start();
  Client client(port);
  for (const std::string_view fields :
       {R"("environment":{"":"x"})", R"("environment":{"A=B":"x"})",
        R"("environment":{"A\u0000":"x"})", R"("environment":{"A":"x\u0000"})",
        R"("memory_bytes":-1)", R"("memory_bytes":4096)",
        R"("egress":{"policy":{"default":"allow"}})"}) {
    client.send(json_request("/session/", R"({"base_image":"i",)" + std::string(fields) + "}"));
    const Answer answer = client.read();
    EXPECT_EQ(answer.status, 400) << fields;
    EXPECT_TRUE(answer.body.starts_with(R"({"detail":")")) << answer.body;
  }
  on_server([this] { EXPECT_TRUE(service.created.empty()); });
}

TEST_F(ServerTest, ParsesTheBodyBeforeItChecksTheKey) {
  start();
  Client client(port);
  client.send(
      "POST /session/ HTTP/1.1\r\nHost: h\r\nX-API-Key: no\r\nContent-Type: application/json\r\n"
      "Content-Length: 1\r\n\r\n{");
  EXPECT_EQ(client.read().status, 422);
  client.send(
      "POST /session/ HTTP/1.1\r\nHost: h\r\nX-API-Key: no\r\nContent-Type: application/json\r\n"
      "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(client.read().body, R"({"detail":"Invalid API Key"})");
  client.send(
      "POST /session/ HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\nContent-Type: application/json\r\n"
      "Content-Length: 3\r\n\r\n\"\xff\"");
  const Answer unreadable = client.read();
  EXPECT_EQ(unreadable.status, 400);
  EXPECT_EQ(unreadable.body, R"({"detail":"There was an error parsing the body"})");
}

TEST_F(ServerTest, TakesNoLargeBodyWithoutTheKey) {
  start();
  Client client(port);
  client.send(
      "POST /session/s/ HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: "
      "9000000\r\n\r\n{");
  const Answer answer = client.read();
  EXPECT_EQ(answer.body, R"({"detail":"API Key header is missing"})");
  EXPECT_EQ(answer.fields.at("connection"), "close");
}

TEST_F(ServerTest, RunsAnyOutputAsUtf8) {
  start();
  Client client(port);
  client.send(json_request("/session/s/",
                           R"({"commands":["big 3000000","\u0001\u00e9\"\\"],"timeout":1e9})"));
  const Answer answer = client.read();
  EXPECT_EQ(answer.fields.at("transfer-encoding"), "chunked");
  const auto body = decode_json(answer.body);
  ASSERT_TRUE(body);
  const Json::Array& results = *body->find("results")->array();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(*results[0].find("output")->string(), std::string(3'000'000, 'x'));
  EXPECT_EQ(*results[1].find("output")->string(), "\x01\xc3\xa9\"\\");
}

TEST_F(ServerTest, EndsALongAnswerToAnOldClientByClosing) {
  start();
  Client client(port);
  client.send(
      "POST /session/s/ HTTP/1.0\r\nX-API-Key: key\r\nContent-Type: application/json\r\n"
      "Connection: keep-alive\r\nContent-Length: 27\r\n\r\n{\"commands\":[\"big 300000\"]}");
  const std::string all = client.read_to_end();
  EXPECT_FALSE(all.contains("chunked"));
  EXPECT_TRUE(all.contains("connection: close"));
  EXPECT_GT(all.size(), 300'000U);
}

TEST_F(ServerTest, TellsWhyASessionCanNotServe) {
  start();
  Client client(port);
  client.send(json_request("/session/s/", R"({"commands":["busy"]})"));
  const Answer busy = client.read();
  EXPECT_EQ(busy.status, 409);
  EXPECT_EQ(busy.body, R"({"detail":"Session is busy"})");
  client.send(json_request("/session/s/", R"({"commands":["full"]})"));
  const Answer full = client.read();
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(full.body, R"({"detail":"disk full"})");
  client.send(request("PUT", "/session/s/egress/", R"({"policy":{"default":"allow"}})",
                      "Content-Type: application/json\r\n"));
  EXPECT_EQ(client.read().body, R"({"detail":"Session has no egress proxy; nothing to refresh"})");
}

TEST_F(ServerTest, HandsEgressPoliciesOn) {
  start();
  on_server([this] { service.egress_offered = true; });
  Client client(port);
  const std::string block =
      R"({"policy":{"default":"allow","intercept":"all","rules":[{"host":"a.test","methods":["GET"],)"
      R"("inject":"t"},{"host":"*.b.test"}]},"secrets":{"t":{"header":"X-T","value":"v"}}})";
  client.send(json_request("/session/", R"({"base_image":"i","egress":)" + block + "}"));
  EXPECT_EQ(client.read().status, 200);
  const std::string path = "/session/session-1/egress/";
  const std::string json = "Content-Type: application/json\r\n";
  client.send(request("PUT", path, block, json));
  EXPECT_EQ(client.read().status, 409);
  on_server([this] { service.egress_update = sessions::EgressUpdate::not_served; });
  client.send(request("PUT", path, block, json));
  EXPECT_EQ(client.read().status, 503);
  on_server([this] { service.egress_update = sessions::EgressUpdate::done; });
  client.send(request("PUT", path, block, json));
  EXPECT_EQ(client.read().status, 204);
  client.send(request("PUT", "/session/other/egress/", block, json));
  EXPECT_EQ(client.read().status, 404);
  on_server([this] {
    sessions::EgressPolicy expected;
    expected.fallback = sessions::EgressDefault::allow;
    expected.intercept = sessions::EgressIntercept::all;
    expected.rules = {{"a.test", {"GET"}, "t"}, {"*.b.test", {}, std::nullopt}};
    expected.secrets = {{"t", {"X-T", "v"}}};
    EXPECT_EQ(service.created.at(0).egress, expected);
    EXPECT_EQ(service.policies.at(2), expected);
  });
}

TEST_F(ServerTest, HidesInternalErrorsInProduction) {
  start();
  Client client(port);
  client.send(json_request("/session/s/", R"({"commands":["crash"]})"));
  const Answer answer = client.read();
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body, "Internal Server Error");
  client.send(request("GET", "/session/s/"));
  EXPECT_EQ(client.read().status, 204);
}

TEST_F(ServerTest, ShowsInternalErrorsLocally) {
  settings.environment = Environment::local;
  start();
  Client client(port);
  client.send(json_request("/session/s/", R"({"commands":["crash"]})"));
  EXPECT_EQ(client.read().body, "Internal Server Error: internal detail");
}

TEST_F(ServerTest, SurvivesASessionThatAnswersNonsense) {
  start();
  Client client(port);
  using namespace sessions::fs;
  for (const std::string& reply :
       {std::string(), std::string("\xff"), encode_fs_reply(WriteReply{})}) {
    on_server([this, &reply] { service.fs_reply = reply; });
    client.send(json_request("/session/s/fs/ls", R"({"path":"/workspace"})"));
    EXPECT_EQ(client.read().status, 500);
  }
  on_server(
      [this] { service.fs_reply = encode_fs_reply(LsReply{{{"/workspace/repo", true}}, {}}); });
  client.send(json_request("/session/s/fs/ls", R"({"path":"/workspace"})"));
  EXPECT_EQ(client.read().body,
            R"({"entries":[{"path":"/workspace/repo","is_dir":true}],"error":null})");
}

TEST_F(ServerTest, WritesLargeFilesWhole) {
  start();
  using namespace sessions::fs;
  on_server([this] { service.fs_reply = encode_fs_reply(WriteReply{}); });
  Client client(port);
  for (const std::size_t size : {10U, 60'000U, 200'000U, 5'000'000U}) {
    std::string content;
    for (std::size_t i = 0; i < size; ++i) content += static_cast<char>(i * 7 + i / 1000);
    client.send(json_request("/session/s/fs/write", R"({"path":"/workspace/f","content":")" +
                                                        encode_base64(content) + "\"}"));
    EXPECT_EQ(client.read().body, R"({"error":null,"ok":true})") << size;
    on_server([&] {
      EXPECT_EQ(decode_fs_request(service.fs_requests.back()),
                FsRequest(WriteRequest{"/workspace/f", content, 0644}))
          << size;
    });
  }
}

TEST_F(ServerTest, CancelsTheOperationOfAClientThatLeft) {
  start();
  Client client(port);
  client.send(json_request("/session/s/", R"({"commands":["hang"]})"));
  wait_until([this] { return service.hanging == 1; });
  client.close();
  wait_until([this] { return service.cancelled == 1; });
}

TEST_F(ServerTest, KeepsAPipelinedRequestWhileOneIsRunning) {
  start();
  Client client(port);
  client.send(json_request("/session/s/", R"({"commands":["hang"]})"));
  wait_until([this] { return service.hanging == 1; });
  client.send(request("GET", "/-/health/"));
  on_server([this] { service.release(); });
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.read().body, R"({"status":"ok"})");
  on_server([this] { EXPECT_EQ(service.cancelled, 0); });
}

TEST_F(ServerTest, FinishesRequestsInFlightWhenItStops) {
  start();
  Client busy(port);
  Client idle(port);
  idle.send(request("GET", "/-/health/"));
  EXPECT_EQ(idle.read().status, 200);
  busy.send(json_request("/session/s/", R"({"commands":["hang"]})"));
  wait_until([this] { return service.hanging == 1; });
  stop();
  EXPECT_EQ(idle.read_to_end(), "");
  on_server([this] { service.release(); });
  const Answer answer = busy.read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(busy.read_to_end(), "");
  join();
}

TEST_F(ServerTest, GivesUpOnRequestsThatOutlastTheDrain) {
  settings.timeouts.drain = milliseconds(50);
  start();
  Client busy(port);
  busy.send(json_request("/session/s/", R"({"commands":["hang"]})"));
  wait_until([this] { return service.hanging == 1; });
  stop();
  join();
  EXPECT_EQ(service.cancelled, 1);
}

TEST_F(ServerTest, ListensOnAUnixSocketToo) {
  settings.unix_socket = testing::TempDir() + "api-test-" + std::to_string(getpid()) + ".sock";
  start();
  Client client(settings.unix_socket);
  client.send(request("GET", "/-/health/"));
  EXPECT_EQ(client.read().status, 200);
  Client other(port);
  other.send(request("GET", "/-/health/"));
  EXPECT_EQ(other.read().status, 200);
}

}  // namespace
}  // namespace daiv::api::test
