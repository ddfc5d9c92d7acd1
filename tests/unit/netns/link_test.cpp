#include "netns/link.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netns/proxy_sockets.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/namespace.hpp"

namespace daiv::netns {
namespace {

constexpr std::uint16_t port = 8080;
constexpr LinkAddresses addresses{0xc6120001, 0xc6120002};  // 198.18.0.1 and .2, RFC 2544

os::UniqueFd own_namespace() { return os::open_file("/proc/self/ns/net", O_RDONLY); }

void enter(const os::UniqueFd& target) { ASSERT_EQ(::setns(target.get(), CLONE_NEWNET), 0); }

// A namespace like a sandbox's, and the link to it.
class Link : public testing::Test {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: makes network namespaces";
    home_ = own_namespace();
    os::unshare(CLONE_NEWNET);
    os::bring_loopback_up();
    sandbox_ = own_namespace();
    enter(home_);
    proxy_ = make_proxy_namespace();
    make_link(proxy_, sandbox_, addresses, Transparency::off);
    settle_link(proxy_);
  }
  void TearDown() override {
    if (home_) enter(home_);
  }
  os::UniqueFd home_;
  os::UniqueFd sandbox_;
  os::UniqueFd proxy_;
};

os::UniqueFd listen_in(const os::UniqueFd& network_namespace) {
  return std::move(
      open_proxy_sockets(network_namespace, addresses.proxy, port, Transparency::off).front());
}

// 0, or the errno of connect(2) from the present namespace.
int try_connect(int type, std::uint32_t address, std::uint16_t to_port) {
  const os::UniqueFd socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(to_port);
  target.sin_addr.s_addr = htonl(address);
  const int result =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target);
  return result == 0 ? 0 : errno;
}

std::set<std::string> interfaces_with(int family) {
  std::set<std::string> names;
  ifaddrs* list = nullptr;
  EXPECT_EQ(::getifaddrs(&list), 0);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == family)
      names.insert(entry->ifa_name);
  ::freeifaddrs(list);
  return names;
}

TEST_F(Link, ReachesTheListenerAndNothingElse) {
  const os::UniqueFd listener = listen_in(proxy_);
  enter(sandbox_);
  EXPECT_EQ(try_connect(SOCK_STREAM, addresses.proxy, port), 0);
  EXPECT_EQ(try_connect(SOCK_STREAM, addresses.proxy, port + 1), ECONNREFUSED);
  for (const std::uint32_t other : {addresses.proxy - 1, addresses.sandbox + 1, 0xc6130001U,
                                    0x0a000001U, 0xa9fea9feU, 0x08080808U, 0xffffffffU}) {
    const int error = try_connect(SOCK_STREAM, other, port);
    EXPECT_TRUE(error == ENETUNREACH || error == EACCES) << format_address(other) << error;
    EXPECT_NE(try_connect(SOCK_DGRAM, other, 53), 0) << format_address(other);
  }
}

TEST_F(Link, HasNoIpv6OnEitherEnd) {
  enter(sandbox_);
  EXPECT_EQ(interfaces_with(AF_INET6), std::set<std::string>{"lo"});
  EXPECT_EQ(interfaces_with(AF_INET), (std::set<std::string>{"lo", sandbox_end}));
  enter(proxy_);
  EXPECT_EQ(interfaces_with(AF_INET6), std::set<std::string>{});
  EXPECT_EQ(interfaces_with(AF_INET), std::set<std::string>{proxy_end});
}

TEST_F(Link, ListensAgainInTheHeldNamespace) {
  std::string directory = testing::TempDir() + "/netns-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/held";
  hold_namespace(proxy_, path);
  {
    const os::UniqueFd first = listen_in(proxy_);
  }
  proxy_.reset();  // now the bind mount alone keeps it
  const os::UniqueFd listener = listen_in(open_held_namespace(path));
  enter(sandbox_);
  EXPECT_EQ(try_connect(SOCK_STREAM, addresses.proxy, port), 0);
  enter(home_);
  release_namespace(path);
  EXPECT_FALSE(std::filesystem::exists(path));
  release_namespace(path);  // nothing to do
  EXPECT_THROW(open_held_namespace(path), os::Error);
  std::filesystem::remove(directory);
}

TEST_F(Link, GoesWithTheProxysNamespace) {
  proxy_.reset();
  enter(sandbox_);
  // Namespaces are taken down in the background (net_namespace.c, cleanup_net).
  for (int left = 500; ::if_nametoindex(sandbox_end) != 0 && left > 0; --left) ::usleep(10'000);
  EXPECT_EQ(::if_nametoindex(sandbox_end), 0U);
}

TEST_F(Link, HoldingAFileThatIsNoNamespaceIsRefused) {
  std::string path = testing::TempDir() + "/plain-XXXXXX";
  const os::UniqueFd file(::mkstemp(path.data()));
  EXPECT_THROW(open_held_namespace(path), os::Error);
  ::unlink(path.c_str());
}

// A link in transparent mode, with its sockets.
class TransparentLink : public testing::Test {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: makes network namespaces";
    home_ = own_namespace();
    os::unshare(CLONE_NEWNET);
    os::bring_loopback_up();
    const os::UniqueFd sandbox = own_namespace();
    enter(home_);
    const os::UniqueFd proxy = make_proxy_namespace();
    ASSERT_TRUE(supports_transparency());
    sockets_ = open_proxy_sockets(proxy, addresses.proxy, port, Transparency::on);
    make_link(proxy, sandbox, addresses, Transparency::on);
    settle_link(proxy);
    ASSERT_EQ(find_proxy_address(proxy), addresses.proxy);
    enter(sandbox);
  }
  void TearDown() override {
    if (home_) enter(home_);
  }

  os::UniqueFd home_;
  std::vector<os::UniqueFd> sockets_;
};

constexpr std::array outside{0x08080808U, 0x0a000001U, 0x647f0005U, 0xc6130001U,
                             addresses.sandbox + 1};
constexpr std::array<std::uint16_t, 4> other_tcp_ports{22, 53, 8080, 8443};
constexpr std::array<std::uint16_t, 4> udp_ports{53, 80, 443, 4433};

TEST_F(TransparentLink, LeadsTheWebsPortsOfEveryAddressToTheProxy) {
  ASSERT_EQ(sockets_.size(), 5U);
  for (const std::uint32_t address : outside) {
    EXPECT_EQ(try_connect(SOCK_STREAM, address, 80), 0) << format_address(address);
    EXPECT_EQ(try_connect(SOCK_STREAM, address, 443), 0) << format_address(address);
  }
}

TEST_F(TransparentLink, KeepsTheAddressThatWasMeant) {
  ASSERT_EQ(try_connect(SOCK_STREAM, outside[0], 443), 0);
  const int accepted = ::accept4(sockets_.at(2).get(), nullptr, nullptr, SOCK_CLOEXEC);
  ASSERT_GE(accepted, 0);
  const os::UniqueFd socket(accepted);
  sockaddr_in name{};
  socklen_t size = sizeof name;
  ASSERT_EQ(::getsockname(accepted, reinterpret_cast<sockaddr*>(&name), &size), 0);
  EXPECT_EQ(ntohl(name.sin_addr.s_addr), outside[0]);
}

TEST_F(TransparentLink, RefusesAllElseAtOnce) {
  for (const std::uint32_t address : outside) {
    for (const std::uint16_t other : other_tcp_ports)
      EXPECT_EQ(try_connect(SOCK_STREAM, address, other), ENETUNREACH) << format_address(address);
    for (const std::uint16_t other : udp_ports)
      EXPECT_EQ(try_connect(SOCK_DGRAM, address, other), ENETUNREACH) << format_address(address);
  }
  for (const std::uint32_t address : {0xa9fea9feU, 0xe0000001U, 0xf0000001U})
    EXPECT_EQ(try_connect(SOCK_STREAM, address, 80), ENETUNREACH) << format_address(address);
}

TEST_F(TransparentLink, HasOnTheProxysAddressItsPortsAlone) {
  for (const std::uint16_t open : {port, dns_port, http_port, https_port})
    EXPECT_EQ(try_connect(SOCK_STREAM, addresses.proxy, open), 0) << open;
  EXPECT_EQ(try_connect(SOCK_STREAM, addresses.proxy, 22), ECONNREFUSED);
}

}  // namespace
}  // namespace daiv::netns
