#include <fmt/format.h>

#include <atomic>

#include "server_fixture.hpp"

namespace daiv::api::test {
namespace {

using sessions::SeedField;

std::string part(std::string_view name, std::string_view content,
                 std::string_view filename = "; filename=\"f\"") {
  return "--b\r\nContent-Disposition: form-data; name=\"" + std::string(name) + "\"" +
         std::string(filename) + "\r\n\r\n" + std::string(content) + "\r\n";
}

std::string seed_request(std::string_view session, const std::string& body) {
  return request("POST", "/session/" + std::string(session) + "/seed/", body,
                 "Content-Type: multipart/form-data; boundary=b\r\n");
}

class SeedTest : public ServerTest {
protected:
  Answer seed(std::string_view session, const std::string& body) {
    Client client(port);
    client.send(seed_request(session, body));
    return client.read();
  }
  void expect_nothing_committed() {
    on_server([this] { EXPECT_FALSE(service.last_seed.committed); });
  }
};

TEST_F(SeedTest, TakesBothArchivesInEitherOrder) {
  service.sessions = {"s", "t"};
  start();
  EXPECT_EQ(seed("s", part("repo_archive", "R") + part("x", "ignored") +
                          part("skills_archive", "S") + "--b--")
                .status,
            204);
  on_server([this] {
    EXPECT_TRUE(service.last_seed.committed);
    EXPECT_EQ(service.last_seed.archives[SeedField::repo], "R");
    EXPECT_EQ(service.last_seed.archives[SeedField::skills], "S");
  });
  EXPECT_EQ(seed("t", part("skills_archive", "S") + part("repo_archive", "R") + "--b--").status,
            204);
  on_server([this] { EXPECT_EQ(service.last_seed.archives[SeedField::repo], "R"); });
  EXPECT_EQ(seed("s", part("repo_archive", "R") + "--b--").status, 409);
}

// The archive reaches the session while the client still sends it: nothing holds the whole.
TEST_F(SeedTest, StreamsArchives) {
  std::atomic<std::size_t> arrived = 0;
  service.on_seed_bytes = [&arrived](std::size_t count) { arrived += count; };
  start();
  Client client(port);
  client.send(
      "POST /session/s/seed/ HTTP/1.1\r\nHost: h\r\nX-API-Key: key\r\n"
      "Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n");
  const auto chunk = [](const std::string& bytes) {
    return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
  };
  client.send(chunk(
      "--b\r\nContent-Disposition: form-data; name=\"repo_archive\"; filename=\"f\"\r\n\r\n"));
  const std::string piece(1'000'000, 'x');
  for (int i = 1; i <= 20; ++i) {
    client.send(chunk(piece));
    const std::size_t sent = piece.size() * static_cast<std::size_t>(i);
    wait_until([&arrived, sent] { return arrived + 100'000 > sent; });
  }
  client.send(chunk("\r\n--b--\r\n") + "0\r\n\r\n");
  EXPECT_EQ(client.read().status, 204);
  EXPECT_EQ(arrived, 20'000'000U);
}

TEST_F(SeedTest, LeavesNothingOfAClientThatLeft) {
  start();
  Client client(port);
  const std::string request =
      seed_request("s", part("repo_archive", std::string(100'000, 'x')) + "--b--");
  client.send(std::string_view(request).substr(0, request.size() - 10));
  wait_until([this] { return !service.last_seed.archives[SeedField::repo].empty(); });
  client.close();
  EXPECT_EQ(seed("s", part("skills_archive", "S") + "--b--").status, 204);
  on_server([this] { EXPECT_EQ(service.last_seed.archives.count(SeedField::repo), 0U); });
}

TEST_F(SeedTest, LooksForArchivesBeforeTheSession) {
  start();
  const std::string nothing =
      R"({"detail":"At least one of repo_archive or skills_archive must be provided"})";
  EXPECT_EQ(seed("none", part("archive", "x") + "--b--").body, nothing);
  EXPECT_EQ(seed("none", part("repo_archive", "", "") + "--b--").body, nothing);
  EXPECT_EQ(seed("none", "--b--").body, nothing);
  EXPECT_EQ(seed("none", part("repo_archive", "x") + "--b--").status, 404);
}

TEST_F(SeedTest, RefusesATextInPlaceOfAFile) {
  start();
  const Answer answer =
      seed("s", part("repo_archive", "R") + part("skills_archive", "text", "") + "--b--");
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(
      answer.body,
      R"({"detail":[{"type":"value_error","loc":["body","skills_archive"],"msg":"Value error, Expected UploadFile, )"
      R"(received: <class 'str'>","input":"text","ctx":{"error":{}}}]})");
  expect_nothing_committed();
}

TEST_F(SeedTest, RefusesMalformedForms) {
  start();
  EXPECT_EQ(seed("s", "garbage").status, 400);
  EXPECT_EQ(seed("s", part("repo_archive", "R") + "--b\r\nbad\r\n\r\n").status, 400);
  EXPECT_EQ(seed("s", "--b\r\nX: y\r\n\r\nabc\r\n--b--").body,
            R"({"detail":"The Content-Disposition header field \"name\" must be provided."})");
  EXPECT_EQ(seed("s", part("repo_archive", "R") + part("repo_archive", "R") + "--b--").status, 422);
  EXPECT_EQ(seed("s", part("x", std::string(2U << 20, 'x'), "") + "--b--").body,
            R"({"detail":"Part exceeded maximum size of 1024KB."})");
  EXPECT_EQ(seed("s", part("repo_archive", "R") +
                          "--b\r\nContent-Disposition: form-data; name=a\r\n\r\ncut")
                .status,
            400);
  expect_nothing_committed();
}

TEST_F(SeedTest, ReportsABrokenArchiveAndGoesOn) {
  start();
  Client client(port);
  client.send(
      seed_request("s", part("repo_archive", "refuse" + std::string(3'000'000, 'x')) + "--b--"));
  const Answer answer = client.read();
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(answer.body, R"({"detail":"repo_archive is invalid: refused"})");
  expect_nothing_committed();
  client.send(seed_request("s", part("repo_archive", "R") + "--b--"));
  EXPECT_EQ(client.read().status, 204);
}

TEST_F(SeedTest, ReadsOtherFormsAsFastApiDoes) {
  start();
  Client client(port);
  client.send(request("POST", "/session/s/seed/", "repo_archive=a+b",
                      "Content-Type: application/x-www-form-urlencoded\r\n"));
  EXPECT_TRUE(client.read().body.contains(R"("input":"a b")"));
  client.send(request("POST", "/session/s/seed/", "x", "Content-Type: multipart/form-data\r\n"));
  EXPECT_EQ(client.read().body, R"({"detail":"Missing boundary in multipart."})");
  client.send(request("POST", "/session/s/seed/", "{}", "Content-Type: application/json\r\n"));
  EXPECT_EQ(client.read().status, 422);
}

}  // namespace
}  // namespace daiv::api::test
