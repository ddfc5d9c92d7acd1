#include "os/network_namespace.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "os/error.hpp"

namespace daiv::os {
namespace {

TEST(NetworkNamespace, NamesAreOneComponentOfAPath) {
  for (const char* good : {"blue", "a.b", "...", "cni-12:34", "x@y+z"})
    EXPECT_TRUE(is_network_name(good)) << good;
  for (const char* bad : {"", ".", "..", "a/b", "/", "a b", "a\nb", "a\"b", "a'b", "\xc3\xa4"})
    EXPECT_FALSE(is_network_name(bad)) << bad;
  EXPECT_TRUE(is_network_name(std::string(255, 'a')));
  EXPECT_FALSE(is_network_name(std::string(256, 'a')));
  EXPECT_FALSE(is_network_name(std::string_view("a\0b", 3)));
}

TEST(NetworkNamespace, IsNoFileOfAnotherKindAndNoLink) {
  for (const char* other : {"/etc/hostname", "/dev/null", "/proc", "/nowhere", "/proc/self/ns/net"})
    EXPECT_FALSE(find_network(other)) << other;
}

TEST(LocalAddress, IsToldByTheKernel) {
  const UniqueFd routes(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  ASSERT_TRUE(routes);
  constexpr std::array<unsigned char, 4> loopback{127, 0, 0, 1};
  constexpr std::array<unsigned char, 4> elsewhere{198, 19, 255, 9};
  EXPECT_TRUE(is_local_address(routes, loopback));
  EXPECT_FALSE(is_local_address(routes, elsewhere));
  constexpr std::array<unsigned char, 16> elsewhere6{0x20, 0x01, 0x00, 0x02, 0, 1};
  EXPECT_FALSE(is_local_address(routes, elsewhere6));
  constexpr std::array<unsigned char, 5> none{};
  EXPECT_THROW(is_local_address(routes, none), Error);
}

// What a question that broke off has left behind is not the next one's answer.
TEST(LocalAddress, AnotherQuestionsAnswerIsPassedOver) {
  const UniqueFd routes(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  nlmsghdr stray{};
  stray.nlmsg_len = sizeof stray;
  stray.nlmsg_type = NLMSG_NOOP + 100;  // of no kind: answered by an error
  stray.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  stray.nlmsg_seq = 0;
  ASSERT_EQ(::send(routes.get(), &stray, sizeof stray, 0), static_cast<ssize_t>(sizeof stray));
  constexpr std::array<unsigned char, 4> loopback{127, 0, 0, 1};
  EXPECT_TRUE(is_local_address(routes, loopback));
}

TEST(LocalAddress, OfASocketOfAnotherKindIsUnknown) {
  const UniqueFd other(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr std::array<unsigned char, 4> loopback{127, 0, 0, 1};
  EXPECT_THROW(is_local_address(other, loopback), Error);
}

}  // namespace
}  // namespace daiv::os
