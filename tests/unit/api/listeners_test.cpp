#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "server_fixture.hpp"

namespace daiv::api::test {
namespace {

class ListenersTest : public ServerTest {
protected:
  ListenersTest() { settings.port.reset(); }
  ~ListenersTest() override { ::unlink(path_.c_str()); }

  // A listening socket on `address`, as a supervisor would hand it over.
  static int listen_on(const void* address, socklen_t size, int family) {
    const int fd = ::socket(family, SOCK_STREAM, 0);
    EXPECT_EQ(::bind(fd, static_cast<const sockaddr*>(address), size), 0) << std::strerror(errno);
    EXPECT_EQ(::listen(fd, 8), 0);
    return fd;
  }

  int listen_unix() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    return listen_on(&address, sizeof address, AF_UNIX);
  }

  std::string path_ = testing::TempDir() + "api-listener-" + std::to_string(getpid()) + ".sock";
};

int status_of(Client& client) {
  client.send(request("GET", "/-/health/"));
  return client.read().status;
}

TEST_F(ListenersTest, TakesOverSocketsOfEveryFamily) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  settings.listener_fds = {listen_on(&v4, sizeof v4, AF_INET), listen_unix()};
  start();
  ASSERT_NE(port, 0);
  Client tcp(port);
  EXPECT_EQ(status_of(tcp), 200);
  Client local(path_);
  EXPECT_EQ(status_of(local), 200);
}

TEST_F(ListenersTest, TakesOverAnIpv6Socket) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_any;  // which takes IPv4 clients too, ipv6(7)
  settings.listener_fds = {listen_on(&v6, sizeof v6, AF_INET6)};
  start();
  Client client(port);
  EXPECT_EQ(status_of(client), 200);
}

TEST_F(ListenersTest, RefusesWhatDoesNotListen) {
  settings.listener_fds = {::socket(AF_INET, SOCK_STREAM, 0)};
  EXPECT_THROW(start(), std::runtime_error);
  settings.listener_fds = {::socket(AF_INET, SOCK_DGRAM, 0)};
  EXPECT_THROW(start(), std::runtime_error);
}

TEST_F(ListenersTest, LocalSocketIsForTheGroup) {
  settings.unix_socket = path_;
  start();
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0660U);
  Client client(path_);
  EXPECT_EQ(status_of(client), 200);
}

TEST_F(ListenersTest, ReplacesTheSocketOfAFormerRunButNotALiveOne) {
  const int former = listen_unix();
  settings.unix_socket = path_;
  EXPECT_THROW(start(), std::runtime_error);
  ::close(former);
  start();
  Client client(path_);
  EXPECT_EQ(status_of(client), 200);
}

TEST_F(ListenersTest, BodiesOfAllRequestsHaveABudget) {
  settings.limits.max_buffered_body_bytes = 3000;
  settings.port = 0;
  start();
  Client holder(port);
  holder.send(
      json_request("/session/s/", R"({"commands":["hang",")" + std::string(2000, 'x') + R"("]})"));
  wait_until([this] { return service.hanging == 1; });
  Client second(port);
  second.send(json_request("/session/s/", R"({"commands":[")" + std::string(2000, 'y') + R"("]})"));
  EXPECT_EQ(second.read().status, 503);
  on_server([this] { service.release(); });
  EXPECT_EQ(holder.read().status, 200);
  second.send(json_request("/session/s/", R"({"commands":[")" + std::string(2000, 'y') + R"("]})"));
  EXPECT_EQ(second.read().status, 200);
}

TEST_F(ListenersTest, MetricsTellFileOperationsApart) {
  settings.port = 0;
  start();
  Client client(port);
  const std::string path = R"("path":"/workspace/f")";
  for (const auto& [operation, fields] :
       std::map<std::string, std::string>{{"ls", ""},
                                          {"read", ""},
                                          {"grep", R"(,"pattern":"x")"},
                                          {"glob", R"(,"pattern":"x")"},
                                          {"write", R"(,"content":"")"},
                                          {"edit", R"(,"old":"a","new":"b")"},
                                          {"delete", ""}}) {
    client.send(json_request("/session/s/fs/" + operation, "{" + path + fields + "}"));
    client.read();
    client.send(request("GET", "/-/metrics"));
    EXPECT_TRUE(client.read().body.contains(
        "daiv_sandbox_operation_duration_seconds_count{operation=\"" + operation + "\"} 1\n"))
        << operation;
  }
}

TEST_F(ListenersTest, MetricsTellOperationsByOutcome) {
  settings.port = 0;
  start();
  Client client(port);
  for (const char* command : {"echo", "busy", "crash"}) {
    client.send(json_request("/session/s/", R"({"commands":[")" + std::string(command) + R"("]})"));
    client.read();
  }
  client.send(request("GET", "/-/metrics"));
  const std::string metrics = client.read().body;
  for (const char* outcome : {"ok", "busy", "internal"})
    EXPECT_TRUE(metrics.contains("daiv_sandbox_operations_total{operation=\"run\",outcome=\"" +
                                 std::string(outcome) + "\"} 1\n"))
        << metrics;
  EXPECT_TRUE(
      metrics.contains("daiv_sandbox_operation_duration_seconds_count{operation=\"run\"} 3\n"))
      << metrics;
}

}  // namespace
}  // namespace daiv::api::test
