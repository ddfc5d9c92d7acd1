#include "proxy/dns_lookup.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "os/unique_fd.hpp"
#include "proxy/outbound_sockets.hpp"

namespace daiv::proxy {
namespace {

using namespace std::string_literals;
using std::chrono::seconds;

std::string number(unsigned value) {
  return {static_cast<char>(value >> 8U), static_cast<char>(value & 0xffU)};
}

// One record that belongs to the question's name.
std::string record(unsigned type, unsigned time_to_live, const std::string& data) {
  return "\xc0\x0c"s + number(type) + number(1) + number(0) + number(time_to_live) +
         number(static_cast<unsigned>(data.size())) + data;
}

// A name server on loopback: `answer` makes the records of a question of this type.
class NameServer {
public:
  using Answer = std::function<std::string(unsigned type)>;
  enum class Code : unsigned char { no_error = 0, name_error = 3 };

  explicit NameServer(Answer answer, Code code = Code::no_error)
      : answer_(std::move(answer)), code_(code), socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    address_ = fmt::format("127.0.0.1:{}", ntohs(name.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~NameServer() {
    stopping_ = true;
    thread_.join();
  }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] int questions() const { return questions_; }

private:
  void serve() {
    while (!stopping_) {
      pollfd wait{socket_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 20) <= 0) continue;
      char buffer[512];
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const ssize_t got = ::recvfrom(socket_.get(), buffer, sizeof buffer, 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
      if (got < 17) continue;
      ++questions_;
      const std::string query(buffer, static_cast<std::size_t>(got));
      const std::size_t end = query.find('\0', 12) + 5;
      const unsigned type = static_cast<unsigned char>(query.at(end - 3));
      const std::string records = answer_(type);
      const std::string reply = query.substr(0, 2) + "\x81" +
                                static_cast<char>(0x80 | static_cast<unsigned char>(code_)) +
                                number(1) + number(records.empty() ? 0 : 1) + number(0) +
                                number(0) + query.substr(12, end - 12) + records;
      ::sendto(socket_.get(), reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&from),
               size);
    }
  }

  Answer answer_;
  Code code_;
  os::UniqueFd socket_;
  std::string address_;
  std::atomic<int> questions_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

std::string only_a(unsigned type, unsigned time_to_live) {
  return type == 1 ? record(1, time_to_live, "\xc6\x12\x01\x02") : std::string();
}

TEST(DnsLookup, HoldsAsLongAsItsRecord) {
  for (const auto& [told, kept] :
       {std::pair{300U, seconds(300)}, std::pair{0U, min_answer_lifetime},
        std::pair{60'000U, max_answer_lifetime}}) {
    const NameServer server([lifetime = told](unsigned type) { return only_a(type, lifetime); });
    const TimedLookup answer = look_up("host.test", {server.address(), {}, nullptr});
    ASSERT_TRUE(answer.lookup) << answer.lookup.error().text;
    ASSERT_EQ(answer.lookup->size(), 1U);
    EXPECT_EQ(answer.lookup->front().to_string(), "198.18.1.2");
    EXPECT_EQ(answer.lifetime, kept);
  }
}

TEST(DnsLookup, OfANameThatDoesNotExistFails) {
  const NameServer server([](unsigned) { return std::string(); }, NameServer::Code::name_error);
  const TimedLookup answer = look_up("none.test", {server.address(), {}, nullptr});
  ASSERT_FALSE(answer.lookup);
  EXPECT_NE(answer.lookup.error().text.find("none.test"), std::string::npos);
  EXPECT_EQ(answer.lifetime, failure_lifetime);
}

TEST(DnsLookup, WithoutAnAddressFails) {
  const NameServer server([](unsigned) { return std::string(); });
  EXPECT_FALSE(look_up("empty.test", {server.address(), {}, nullptr}).lookup);
}

TEST(DnsLookup, OfGarbageFails) {
  const NameServer server([](unsigned) { return std::string("\xc0\xff\xff"); });
  EXPECT_FALSE(look_up("odd.test", {server.address(), {}, nullptr}).lookup);
}

TEST(DnsLookup, AsksThroughLentSockets) {
  const NameServer server([](unsigned type) { return only_a(type, 60); });
  std::atomic<int> lent{0};
  const auto sockets = std::make_shared<OutboundSockets>(
      [&lent](OutboundKind kind) {
        EXPECT_EQ(kind, OutboundKind::udp4);
        ++lent;
        OutboundBatch batch;
        batch.sockets.emplace_back(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        return batch;
      },
      [] { return std::optional<os::NetworkIdentity>(); });
  const TimedLookup answer = look_up("host.test", {server.address(), {}, sockets});
  ASSERT_TRUE(answer.lookup) << answer.lookup.error().text;
  EXPECT_EQ(answer.lookup->front().to_string(), "198.18.1.2");
  EXPECT_GT(lent, 0);
}

}  // namespace
}  // namespace daiv::proxy
