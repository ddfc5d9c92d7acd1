#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "api/tls_credentials.hpp"
#include "server_fixture.hpp"
#include "tls_client.hpp"

namespace daiv::api::test {
namespace {

using std::chrono::milliseconds;

// As an administrator's tools do: written beside, then renamed.
void replace_file(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

class TlsTest : public ServerTest {
protected:
  TlsTest() {
    EXPECT_NE(::mkdtemp(directory_.data()), nullptr);
    settings.tls = TlsFiles{directory_ + "/cert.pem", directory_ + "/key.pem"};
    install(make_tls_pair(1));
  }
  ~TlsTest() override { std::filesystem::remove_all(directory_); }

  void install(const TlsPair& pair) const {
    replace_file(settings.tls->certificate, pair.certificate);
    replace_file(settings.tls->key, pair.key);
  }

  std::string directory_ = testing::TempDir() + "api-tls-XXXXXX";
};

std::string last_request(std::string_view path, std::string_view body = "") {
  return request(body.empty() ? "GET" : "POST", path, body,
                 "Content-Type: application/json\r\nConnection: close\r\n");
}

TEST_F(TlsTest, AnswersAndAgreesOnHttp11) {
  start();
  TlsClient client(port);
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.version(), "TLSv1.3");
  EXPECT_EQ(client.protocol(), "http/1.1");
  client.send(last_request("/-/health/"));
  EXPECT_TRUE(client.read_to_end().ends_with(R"({"status":"ok"})"));
  EXPECT_TRUE(client.closed_properly());
}

TEST_F(TlsTest, SpeaksTls12AsWell) {
  start();
  TlsClient client(port, {.max_version = TLS1_2_VERSION});
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.version(), "TLSv1.2");
  client.send(last_request("/-/health/"));
  EXPECT_TRUE(client.read_to_end().starts_with("HTTP/1.1 200"));
}

TEST_F(TlsTest, RefusesAClientThatSpeaksNoHttp11) {
  start();
  const TlsClient client(port, {.protocols = "\x02h2"});
  EXPECT_FALSE(client.connected());
}

TEST_F(TlsTest, RedirectsToHttps) {
  start();
  TlsClient client(port);
  client.send(last_request("/-/health"));
  EXPECT_TRUE(client.read_to_end().contains("location: https://test/-/health/"));
}

TEST_F(TlsTest, CarriesLargeBodiesBothWays) {
  start();
  TlsClient client(port);
  client.send(last_request(
      "/session/s/", R"({"commands":["big 3000000",")" + std::string(2'000'000, 'y') + R"("]})"));
  const std::string answer = client.read_to_end();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200"));
  EXPECT_GT(answer.size(), 5'000'000U);
  EXPECT_TRUE(client.closed_properly());
}

TEST_F(TlsTest, GoesOnAfterAKeyUpdate) {
  start();
  TlsClient client(port);
  client.send(request("GET", "/-/health/"));
  client.request_key_update();
  client.send(last_request("/-/version/"));
  EXPECT_TRUE(client.read_to_end().contains("v1.2.3"));
}

TEST_F(TlsTest, CutsPlainHttp) {
  start();
  Client client(port);
  client.send(request("GET", "/-/health/"));
  EXPECT_FALSE(client.read_to_end().contains("HTTP/1.1"));
}

TEST_F(TlsTest, CutsASlowHandshakeAndServesOthersMeanwhile) {
  settings.timeouts.tls_handshake = milliseconds(300);
  start();
  Client slow(port);
  slow.send("\x16\x03\x01");  // the beginning of a ClientHello
  TlsClient other(port);
  EXPECT_TRUE(other.connected());
  EXPECT_EQ(slow.read_to_end(), "");
}

TEST_F(TlsTest, CancelsTheOperationOfAClientThatAborts) {
  start();
  TlsClient client(port);
  client.send(json_request("/session/s/", R"({"commands":["hang"]})"));
  wait_until([this] { return service.hanging == 1; });
  client.abort();
  wait_until([this] { return service.cancelled == 1; });
}

TEST_F(TlsTest, TakesUpANewPairWhileItServes) {
  settings.timeouts.tls_poll = milliseconds(10);
  start();
  TlsClient before(port);
  EXPECT_EQ(before.serial(), 1);
  install(make_tls_pair(2));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  long serial = 0;
  while (serial != 2 && std::chrono::steady_clock::now() < deadline)
    serial = TlsClient(port).serial();
  EXPECT_EQ(serial, 2);
  before.send(last_request("/-/health/"));
  EXPECT_TRUE(before.read_to_end().starts_with("HTTP/1.1 200"));
}

TEST_F(TlsTest, LocalSocketStaysPlain) {
  settings.unix_socket = directory_ + "/api.sock";
  start();
  Client client(settings.unix_socket);
  client.send(request("GET", "/-/health/"));
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(TlsTest, CountsFailedHandshakes) {
  start();
  Client plain(port);
  plain.send(request("GET", "/-/health/"));
  plain.read_to_end();
  TlsClient client(port);
  client.send(last_request("/-/metrics"));
  EXPECT_TRUE(client.read_to_end().contains("daiv_sandbox_tls_handshake_failures_total 1\n"));
}

TEST_F(TlsTest, RefusesToStartWithAKeyOfAnotherCertificate) {
  replace_file(settings.tls->key, make_tls_pair(2).key);
  try {
    start();
    ADD_FAILURE() << "started";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(std::string(error.what()).contains(settings.tls->key)) << error.what();
    EXPECT_TRUE(std::string(error.what()).contains("mismatch")) << error.what();
  }
}

TEST_F(TlsTest, RefusesToStartWithoutTheFile) {
  std::filesystem::remove(settings.tls->certificate);
  EXPECT_THROW(start(), std::runtime_error);
}

TEST_F(TlsTest, RefusesAFifo) {
  std::filesystem::remove(settings.tls->key);
  ASSERT_EQ(::mkfifo(settings.tls->key.c_str(), 0600), 0);
  EXPECT_THROW(start(), std::runtime_error);
}

using Poll = TlsCredentials::Poll;

TEST_F(TlsTest, KeepsTheOldPairWhereTheNewOneIsBroken) {
  TlsCredentials credentials(*settings.tls);
  const TlsContext before = credentials.current();
  EXPECT_EQ(credentials.poll(), Poll::unchanged);
  replace_file(settings.tls->key, "no key");
  EXPECT_EQ(credentials.poll(), Poll::unsettled);
  EXPECT_EQ(credentials.poll(), Poll::kept);
  EXPECT_EQ(credentials.poll(), Poll::unchanged);  // said once
  EXPECT_EQ(credentials.current(), before);
  install(make_tls_pair(3));
  EXPECT_EQ(credentials.poll(), Poll::unsettled);
  EXPECT_EQ(credentials.poll(), Poll::reloaded);
  EXPECT_NE(credentials.current(), before);
}

TEST_F(TlsTest, DoesNotReadAPairThatIsHalfReplaced) {
  TlsCredentials credentials(*settings.tls);
  const TlsPair fresh = make_tls_pair(2);
  replace_file(settings.tls->certificate, fresh.certificate);
  EXPECT_EQ(credentials.poll(), Poll::unsettled);
  replace_file(settings.tls->key, fresh.key);
  EXPECT_EQ(credentials.poll(), Poll::unsettled);
  EXPECT_EQ(credentials.poll(), Poll::reloaded);
}

}  // namespace
}  // namespace daiv::api::test
