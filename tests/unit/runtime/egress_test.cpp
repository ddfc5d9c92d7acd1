#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "broker_rig.hpp"
#include "netns/link_plan.hpp"

namespace daiv::runtime::test {
namespace {

constexpr std::uint16_t port = 8080;

CreateSandbox with_link(CreateSandbox request) {
  const std::uint32_t index = (request.uid_base - uid_start) / 65'536U;
  const auto link = netns::plan_link(*netns::parse_subnet(netns::default_subnet), index);
  request.egress = EgressLink{link->proxy, link->sandbox, port, true};
  return request;
}

std::uint16_t listening_port(const os::UniqueFd& socket) {
  int listening = 0;
  socklen_t size = sizeof listening;
  EXPECT_EQ(::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size), 0);
  EXPECT_EQ(listening, 1);
  sockaddr_in address{};
  size = sizeof address;
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

// Whether a namespace of the rig's broker is held.
bool holds_network(const BrokerRig& rig) {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);)
    if (line.find(rig.run() + "/netns/") != std::string::npos) return true;
  return false;
}

// The proxy's, those of the web's ports and the resolver's two.
void expect_sockets(const Reply& reply) {
  ASSERT_EQ(reply.fds.size(), 6U) << failure_text(reply);
  EXPECT_EQ(listening_port(reply.fds[1]), port);
  EXPECT_EQ(listening_port(reply.fds[2]), 80);
  EXPECT_EQ(listening_port(reply.fds[3]), 443);
  EXPECT_EQ(listening_port(reply.fds[5]), 53);
}

TEST(EgressSandbox, ComesWithTheProxysSocketsAlsoAfterARestart) {
  DAIV_REQUIRE_ROOT();
  BrokerRig rig;
  const CreateSandbox request = with_link(rig.request());
  Reply created = rig.try_create(request);
  ASSERT_TRUE(std::holds_alternative<Created>(created.answer)) << failure_text(created);
  expect_sockets(created);
  created.fds.clear();
  rig.restart();
  const Reply adopted = rig.call(AdoptSandbox{request.session, port, true});
  expect_sockets(adopted);
  rig.call(RemoveSandbox{request.session});
}

TEST(EgressSandbox, LeavesNothing) {
  DAIV_REQUIRE_ROOT();
  BrokerRig rig;
  const CreateSandbox request = with_link(rig.request());
  rig.try_create(request);
  EXPECT_TRUE(holds_network(rig));
  rig.call(RemoveSandbox{request.session});
  EXPECT_FALSE(holds_network(rig));
  EXPECT_TRUE(std::filesystem::is_empty(rig.run() + "/netns"));
}

TEST(EgressSandbox, ThatIsKilledHoldsNoNetwork) {
  DAIV_REQUIRE_ROOT();
  BrokerRig rig;
  const CreateSandbox request = with_link(rig.request());
  rig.try_create(request);
  rig.call(KillSandbox{request.session});
  EXPECT_FALSE(holds_network(rig));
}

TEST(EgressSandbox, TakesTheAddressesOfItsRangeAlone) {
  DAIV_REQUIRE_ROOT();
  BrokerRig rig;
  CreateSandbox request = with_link(rig.request());
  request.egress->sandbox += 4;
  const Reply reply = rig.try_create(request);
  ASSERT_TRUE(std::holds_alternative<Failed>(reply.answer));
  EXPECT_EQ(std::get<Failed>(reply.answer).kind, Failure::invalid);
}

}  // namespace
}  // namespace daiv::runtime::test
