#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <future>
#include <string>
#include <thread>

#include "os/error.hpp"
#include "os/unique_fd.hpp"
#include "sentry/client.hpp"

namespace daiv::sentry {
namespace {

using namespace std::chrono_literals;

// An HTTP server on loopback that takes one request a connection and keeps what it got.
class Receiver {
public:
  Receiver() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    os::check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), "bind",
              "receiver");
    os::check(::listen(listener_.get(), 8), "listen", "receiver");
    os::check(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size),
              "getsockname", "receiver");
    port_ = ntohs(address.sin_port);
  }

  [[nodiscard]] Dsn dsn() const {
    return parse_dsn("http://thekey@127.0.0.1:" + std::to_string(port_) + "/42").value();
  }

  // Answers one request with `answer` and returns it whole.
  std::string serve(const std::string& answer) {
    const os::UniqueFd client(
        os::check(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept4", "client"));
    std::string request;
    std::array<char, 4096> buffer{};
    while (!complete(request)) {
      const auto count = ::read(client.get(), buffer.data(), buffer.size());
      if (count <= 0) break;
      request.append(buffer.data(), static_cast<std::size_t>(count));
    }
    EXPECT_EQ(::write(client.get(), answer.data(), answer.size()),
              static_cast<ssize_t>(answer.size()));
    return request;
  }

private:
  static bool complete(const std::string& request) {
    const auto head = request.find("\r\n\r\n");
    const auto length = request.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) return false;
    return request.size() >= head + 4 + std::stoul(request.substr(length + 16));
  }

  os::UniqueFd listener_;
  std::uint16_t port_ = 0;
};

constexpr auto ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
const Process process{"daiv-sandbox@1", "production", "host", Pii::stripped, 1.0, 0};

Request version_request() {
  Request request;
  request.method = "GET";
  request.route = "/-/version/";
  request.status = 200;
  return request;
}

TEST(Transport, DeliversAnEnvelopeWithItsKey) {
  Receiver receiver;
  Client client(process, LogForwarding::off, receiver.dsn());
  client.log({std::chrono::system_clock::now(), Level::error, "front", "it broke"});
  const auto request = receiver.serve(ok);
  client.flush(5s);
  EXPECT_EQ(request.find("POST /api/42/envelope/ HTTP/1.1"), 0U);
  EXPECT_NE(request.find("sentry_key=thekey"), std::string::npos);
  EXPECT_NE(request.find("it broke"), std::string::npos);
  EXPECT_EQ(client.transport().sent(), 1U);
}

TEST(Transport, LinesBelowErrorAreNoEvents) {
  Receiver receiver;
  Client client(process, LogForwarding::off, receiver.dsn());
  client.log({std::chrono::system_clock::now(), Level::warning, "front", "hm"});
  client.flush(1s);
  EXPECT_EQ(client.transport().sent() + client.transport().dropped(), 0U);
}

TEST(Transport, LogLinesTravelTogetherWhereForwardingIsOn) {
  Receiver receiver;
  Client client(process, LogForwarding::on, receiver.dsn());
  client.log({std::chrono::system_clock::now(), Level::info, "front", "line one"});
  client.log({std::chrono::system_clock::now(), Level::info, "front", "line two"});
  auto served = std::async(std::launch::async, [&] { return receiver.serve(ok); });
  client.flush(5s);
  const auto request = served.get();
  EXPECT_NE(request.find("line one"), std::string::npos);
  EXPECT_NE(request.find("line two"), std::string::npos);
}

TEST(Transport, IsSilentWhileTheServerAsksForAPause) {
  Receiver receiver;
  Transport transport(receiver.dsn());
  transport.offer("first");
  receiver.serve(
      "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 60\r\nContent-Length: 0\r\nConnection: "
      "close\r\n\r\n");
  transport.flush(5s);
  transport.offer("second");
  EXPECT_EQ(transport.sent(), 0U);
  EXPECT_EQ(transport.dropped(), 2U);
}

TEST(Transport, DropsWhatIsAboveItsBoundAndNeverWaits) {
  Receiver receiver;  // accepts nothing: the first envelope hangs until the timeout
  Transport transport(receiver.dsn(), {.max_queued_bytes = 1000, .request_timeout = 300ms});
  for (int count = 0; count < 100; ++count) transport.offer(std::string(100, 'x'));
  EXPECT_GE(transport.dropped(), 90U);
}

TEST(Transport, EveryRequestIsATransactionAtRateOneAndNoneAtZero) {
  Receiver receiver;
  auto none = process;
  none.traces_sample_rate = 0;
  Client silent(none, LogForwarding::off, receiver.dsn());
  silent.request(version_request());
  silent.flush(1s);
  EXPECT_EQ(silent.transport().sent() + silent.transport().dropped(), 0U);

  Client client(process, LogForwarding::off, receiver.dsn());
  client.request(version_request());
  EXPECT_NE(receiver.serve(ok).find("GET /-/version/"), std::string::npos);
}

}  // namespace
}  // namespace daiv::sentry
