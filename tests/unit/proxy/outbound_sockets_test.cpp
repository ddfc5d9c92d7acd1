#include "proxy/outbound_sockets.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "proxy/dns_lookup.hpp"

namespace daiv::proxy {
namespace {

namespace asio = boost::asio;
using std::chrono::steady_clock;

constexpr os::NetworkIdentity first{1, 100};
constexpr os::NetworkIdentity made_anew{1, 200};  // the number is the same

os::UniqueFd open_socket(int family, int type, int protocol = 0) {
  return os::UniqueFd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
}

// In the broker's place: sockets of the present namespace, three at a time.
struct Lender {
  OutboundBatch open(OutboundKind kind) {
    ++batches;
    if (!present) throw std::runtime_error("the namespace is gone");
    OutboundBatch batch{*present, open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), {}};
    const bool is_udp = kind == OutboundKind::udp4 || kind == OutboundKind::udp6;
    for (int count = 0; count < 3; ++count)
      batch.sockets.push_back(open_socket(AF_INET, is_udp ? SOCK_DGRAM : SOCK_STREAM));
    return batch;
  }
  std::shared_ptr<OutboundSockets> sockets() {
    return std::make_shared<OutboundSockets>([this](OutboundKind kind) { return open(kind); },
                                             [this] { return present; });
  }

  std::optional<os::NetworkIdentity> present = first;
  std::atomic<int> batches{0};
};

TEST(OutboundSockets, ABatchServesSeveralConnections) {
  Lender lender;
  const auto sockets = lender.sockets();
  EXPECT_FALSE(sockets->try_take(OutboundKind::tcp4));
  for (int count = 0; count < 3; ++count) EXPECT_TRUE(sockets->take(OutboundKind::tcp4).socket);
  EXPECT_EQ(lender.batches, 1);
  sockets->take(OutboundKind::udp4);
  EXPECT_EQ(lender.batches, 2);
  EXPECT_TRUE(sockets->try_take(OutboundKind::udp4));
  EXPECT_FALSE(sockets->try_take(OutboundKind::tcp4));
}

TEST(OutboundSockets, ThoseOfANamespaceThatWasMadeAnewAreNotUsed) {
  Lender lender;
  const auto sockets = lender.sockets();
  EXPECT_EQ(sockets->take(OutboundKind::tcp4).network->identity(), first);
  lender.present = made_anew;
  EXPECT_EQ(sockets->take(OutboundKind::tcp4).network->identity(), made_anew);
  EXPECT_EQ(lender.batches, 2);
}

TEST(OutboundSockets, AreNoneWhereTheNamespaceIsGone) {
  Lender lender;
  const auto sockets = lender.sockets();
  sockets->take(OutboundKind::tcp4);
  lender.present.reset();
  EXPECT_FALSE(sockets->try_take(OutboundKind::tcp4));
  EXPECT_THROW(sockets->take(OutboundKind::tcp4), std::runtime_error);
}

TEST(OutboundSockets, StaleOnesAreLetGoWithoutBeingAskedFor) {
  Lender lender;
  const auto sockets = lender.sockets();
  const std::weak_ptr<const OutboundNetwork> network = sockets->take(OutboundKind::tcp4).network;
  sockets->drop_stale();
  EXPECT_FALSE(network.expired());
  lender.present.reset();
  sockets->drop_stale();
  EXPECT_TRUE(network.expired());
}

TEST(OutboundSockets, ThreadsThatWantSomeAtOnceShareBatches) {
  Lender lender;
  const auto sockets = lender.sockets();
  std::vector<std::jthread> threads;
  for (int count = 0; count < 12; ++count)
    threads.emplace_back([&] { EXPECT_TRUE(sockets->take(OutboundKind::tcp6).socket); });
  threads.clear();
  EXPECT_EQ(lender.batches, 4);
}

OutboundResult await_socket(const std::shared_ptr<OutboundSockets>& sockets,
                            steady_clock::time_point until) {
  asio::io_context context;
  asio::thread_pool pool(1);
  auto taken = asio::co_spawn(
      context, take_outbound(sockets, OutboundKind::tcp4, context.get_executor(), pool, until),
      asio::use_future);
  context.run();
  pool.join();
  return taken.get();
}

TEST(OutboundSockets, AreAwaitedWithTheReasonWhereThereIsNone) {
  Lender lender;
  const auto soon = steady_clock::now() + std::chrono::minutes(1);
  EXPECT_TRUE(await_socket(lender.sockets(), soon));
  lender.present.reset();
  const OutboundResult none = await_socket(lender.sockets(), soon);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error(), "the namespace is gone");
}

TEST(OutboundSockets, AreAwaitedNoLongerThanToTheDeadline) {
  std::promise<void> release;
  const auto sockets = std::make_shared<OutboundSockets>(
      [waits = release.get_future().share()](OutboundKind) -> OutboundBatch {
        waits.wait();
        throw std::runtime_error("too late");
      },
      [] { return std::optional(first); });
  asio::io_context context;
  asio::thread_pool pool(1);
  auto taken = asio::co_spawn(
      context,
      take_outbound(sockets, OutboundKind::tcp4, context.get_executor(), pool, steady_clock::now()),
      asio::use_future);
  context.run();
  const OutboundResult late = taken.get();
  release.set_value();
  pool.join();
  ASSERT_FALSE(late);
  EXPECT_NE(late.error(), "too late");
}

TEST(OutboundNetwork, WhatTheKernelDoesNotTellIsItsOwn) {
  const auto loopback = asio::ip::make_address("127.0.0.1");
  const auto elsewhere = asio::ip::make_address("198.19.255.9");
  const OutboundNetwork good(first, open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
  EXPECT_TRUE(good.is_own(loopback));
  EXPECT_FALSE(good.is_own(elsewhere));
  const OutboundNetwork broken(first, open_socket(AF_INET, SOCK_STREAM));
  EXPECT_TRUE(broken.is_own(elsewhere));
}

TEST(DnsLookup, WithoutALentSocketFailsWithTheReasonAndAsksNobody) {
  Lender lender;
  lender.present.reset();
  const TimedLookup answer = look_up("host.test", {"127.0.0.1:9", {}, lender.sockets()});
  ASSERT_FALSE(answer.lookup);
  EXPECT_NE(answer.lookup.error().text.find("the namespace is gone"), std::string::npos)
      << answer.lookup.error().text;
}

}  // namespace
}  // namespace daiv::proxy
