#include "netns/upstream_sockets.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "netns/link.hpp"
#include "os/error.hpp"
#include "os/io.hpp"
#include "os/namespace.hpp"

namespace daiv::netns {
namespace {

constexpr LinkAddresses addresses{0xc6120001, 0xc6120002};  // 198.18.0.1 and .2, RFC 2544
using Address = std::array<unsigned char, 4>;

os::UniqueFd present_namespace() { return os::open_file("/proc/self/ns/net", O_RDONLY); }

// 0, or the errno of bind(2).
int try_bind(const os::UniqueFd& socket, std::uint32_t address) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(address);
  const int result = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  return result == 0 ? 0 : errno;
}

// A namespace with an address of its own, 198.18.0.1.
class UpstreamSocketsTest : public testing::Test {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: makes network namespaces";
    home_ = present_namespace();
    os::unshare(CLONE_NEWNET);
    const os::UniqueFd other = present_namespace();
    ASSERT_EQ(::setns(home_.get(), CLONE_NEWNET), 0);
    network_ = make_proxy_namespace();
    make_link(network_, other, addresses, Transparency::off);
  }
  [[nodiscard]] UpstreamSockets open(std::size_t count) const {
    return open_upstream_sockets(network_, AF_INET, SOCK_STREAM, count, {65534, 65534});
  }
  os::UniqueFd home_;
  os::UniqueFd network_;
};

TEST_F(UpstreamSocketsTest, HaveTheNamespacesAddresses) {
  const UpstreamSockets sockets = open(3);
  ASSERT_EQ(sockets.opened.size(), 4U);
  for (std::size_t index = 1; index < sockets.opened.size(); ++index)
    EXPECT_EQ(try_bind(sockets.opened[index], addresses.proxy), 0);
  EXPECT_EQ(sockets.network, os::identify_network(network_));
}

TEST_F(UpstreamSocketsTest, LeaveTheirMakerWhereAndWhoItWas) {
  const os::NetworkIdentity before = os::identify_network(home_);
  static_cast<void>(open(1));
  EXPECT_EQ(os::identify_network(present_namespace()).inode, before.inode);
  const os::UniqueFd own(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(try_bind(own, addresses.proxy), EADDRNOTAVAIL);
  struct stat status{};
  ASSERT_EQ(::fstat(own.get(), &status), 0);
  EXPECT_EQ(status.st_uid, ::geteuid());
}

TEST_F(UpstreamSocketsTest, TellWhichAddressesAreTheNamespacesOwn) {
  const UpstreamSockets sockets = open(1);
  const os::UniqueFd& routes = sockets.opened.front();
  EXPECT_TRUE(os::is_local_address(routes, Address{198, 18, 0, 1}));
  EXPECT_FALSE(os::is_local_address(routes, Address{198, 18, 0, 2}));
  EXPECT_FALSE(os::is_local_address(routes, Address{198, 19, 9, 9}));
}

TEST_F(UpstreamSocketsTest, AreNotMadeInThePresentNamespace) {
  try {
    open_upstream_sockets(home_, AF_INET, SOCK_STREAM, 1, {});
    FAIL() << "sockets of the present namespace";
  } catch (const os::Error& error) {
    EXPECT_EQ(error.error_number(), EINVAL);
  }
}

}  // namespace
}  // namespace daiv::netns
