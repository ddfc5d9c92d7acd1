#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "broker_rig.hpp"
#include "netns/link.hpp"
#include "os/io.hpp"
#include "os/namespace.hpp"
#include "os/network_namespace.hpp"

namespace daiv::runtime::test {
namespace {

// A namespace below /run/netns, as `ip netns add` makes it.
class NamedNetwork {
public:
  NamedNetwork() : name_(fmt::format("daivunit{}", ::getpid())) {
    std::filesystem::create_directories(os::named_networks);
    make();
  }
  ~NamedNetwork() { remove(); }
  NamedNetwork(const NamedNetwork&) = delete;
  NamedNetwork& operator=(const NamedNetwork&) = delete;

  void make() const {
    const os::UniqueFd home = os::open_file("/proc/self/ns/net", O_RDONLY);
    os::unshare(CLONE_NEWNET);
    const os::UniqueFd made = os::open_file("/proc/self/ns/net", O_RDONLY);
    ASSERT_EQ(::setns(home.get(), CLONE_NEWNET), 0);
    netns::hold_namespace(made, path());
  }
  void remove() const { netns::release_namespace(path()); }

  [[nodiscard]] std::string path() const { return fmt::format("{}/{}", os::named_networks, name_); }
  [[nodiscard]] std::string argument() const { return "--egress-netns=" + name_; }

private:
  std::string name_;
};

// Of the namespace that a socket is of; never given twice (socket(7), SO_NETNS_COOKIE).
std::uint64_t cookie_of(const os::UniqueFd& socket) {
  constexpr int netns_cookie = 71;
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  EXPECT_EQ(::getsockopt(socket.get(), SOL_SOCKET, netns_cookie, &cookie, &size), 0);
  return cookie;
}

std::uint64_t cookie_here() {
  return cookie_of(os::UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
}

int option_of(const os::UniqueFd& socket, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket.get(), SOL_SOCKET, option, &value, &size), 0);
  return value;
}

using Family = OpenUpstreamSockets::Family;
using Type = OpenUpstreamSockets::Type;

TEST(UpstreamSockets, AreOfTheNamespaceThatTheBrokerWasStartedWithAndOfTheFrontsUser) {
  DAIV_REQUIRE_ROOT();
  const NamedNetwork network;
  BrokerRig rig({}, "state", {network.argument(), "--front-uid=65534", "--front-gid=65533"});
  for (const auto& [request, family, type] :
       {std::tuple{OpenUpstreamSockets{Family::inet, Type::stream}, AF_INET, SOCK_STREAM},
        std::tuple{OpenUpstreamSockets{Family::inet6, Type::datagram}, AF_INET6, SOCK_DGRAM}}) {
    const Reply reply = rig.call(request);
    ASSERT_TRUE(std::holds_alternative<UpstreamSockets>(reply.answer)) << failure_text(reply);
    EXPECT_EQ(std::get<UpstreamSockets>(reply.answer).network, os::find_network(network.path()));
    ASSERT_EQ(reply.fds.size(), upstream_batch + 1);
    EXPECT_EQ(option_of(reply.fds.front(), SO_DOMAIN), AF_NETLINK);
    EXPECT_EQ(option_of(reply.fds.back(), SO_DOMAIN), family);
    EXPECT_EQ(option_of(reply.fds.back(), SO_TYPE), type);
    for (const os::UniqueFd& socket : reply.fds) {
      EXPECT_NE(cookie_of(socket), cookie_here());
      EXPECT_EQ(cookie_of(socket), cookie_of(reply.fds.front()));
      struct stat status{};
      ASSERT_EQ(::fstat(socket.get(), &status), 0);
      EXPECT_EQ(status.st_uid, 65534U);
      EXPECT_EQ(status.st_gid, 65533U);
      EXPECT_NE(::fcntl(socket.get(), F_GETFL) & O_NONBLOCK, 0);
    }
  }
}

TEST(UpstreamSockets, AreNoneWithoutANamespace) {
  DAIV_REQUIRE_ROOT();
  BrokerRig rig;
  const Reply reply = rig.call(OpenUpstreamSockets{});
  ASSERT_TRUE(std::holds_alternative<Failed>(reply.answer));
  EXPECT_TRUE(reply.fds.empty());
}

TEST(UpstreamSockets, AreNoneWhereTheNamespaceIsGoneAndTheNewOnesWhereItIsMadeAnew) {
  DAIV_REQUIRE_ROOT();
  const NamedNetwork network;
  BrokerRig rig({}, "state", {network.argument()});
  const Reply first = rig.call(OpenUpstreamSockets{});
  ASSERT_TRUE(std::holds_alternative<UpstreamSockets>(first.answer)) << failure_text(first);
  network.remove();
  const Reply none = rig.call(OpenUpstreamSockets{});
  ASSERT_TRUE(std::holds_alternative<Failed>(none.answer));
  EXPECT_NE(failure_text(none).find(network.path()), std::string::npos) << failure_text(none);
  network.make();
  const Reply second = rig.call(OpenUpstreamSockets{});
  ASSERT_TRUE(std::holds_alternative<UpstreamSockets>(second.answer)) << failure_text(second);
  EXPECT_NE(cookie_of(second.fds.back()), cookie_of(first.fds.back()));
  EXPECT_NE(std::get<UpstreamSockets>(second.answer).network,
            std::get<UpstreamSockets>(first.answer).network);
}

TEST(UpstreamSockets, AreNeverTheHostsOwnWhateverTheNameLeadsTo) {
  DAIV_REQUIRE_ROOT();
  const NamedNetwork network;
  network.remove();
  netns::hold_namespace(os::open_file("/proc/self/ns/net", O_RDONLY), network.path());
  BrokerRig rig({}, "state", {network.argument()});
  const Reply reply = rig.call(OpenUpstreamSockets{});
  ASSERT_TRUE(std::holds_alternative<Failed>(reply.answer));
  EXPECT_NE(failure_text(reply).find("the host's own"), std::string::npos) << failure_text(reply);
}

TEST(UpstreamSockets, OfAFileThatIsNoNetworkNamespaceAreNone) {
  DAIV_REQUIRE_ROOT();
  const NamedNetwork network;
  network.remove();
  os::open_file(network.path(), O_WRONLY | O_CREAT, 0600);
  BrokerRig rig({}, "state", {network.argument()});
  EXPECT_TRUE(std::holds_alternative<Failed>(rig.call(OpenUpstreamSockets{}).answer));
  std::filesystem::remove(network.path());
  std::filesystem::create_symlink("/proc/self/ns/net", network.path());
  EXPECT_TRUE(std::holds_alternative<Failed>(rig.call(OpenUpstreamSockets{}).answer));
}

}  // namespace
}  // namespace daiv::runtime::test
