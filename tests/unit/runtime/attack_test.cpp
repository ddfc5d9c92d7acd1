// Past holes of container runtimes, tried from inside a sandbox: each attack fails, and succeeds
// where the one defence against it is switched off, or the test would prove nothing. Built with the
// option attack_switches only.

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "broker_rig.hpp"

namespace daiv::runtime::test {
namespace {

class Attack : public testing::Test {
protected:
  void SetUp() override { DAIV_REQUIRE_ROOT(); }
};

std::vector<std::string> without(const std::string& defence) {
  return {"DAIV_SANDBOX_ATTACK_WITHOUT=" + defence};
}

// A line said to a fresh sandbox.
std::string ask_fresh(BrokerRig& rig, const std::string& line,
                      const std::string& layer_script = "true") {
  const CreateSandbox request = rig.request({rig.add_layer(layer_script)});
  const os::UniqueFd pidfd = rig.create(request);
  std::string answer = rig.ask(request.session, line);
  rig.call(RemoveSandbox{request.session});
  return answer;
}

// The target of a mount or a directory of ours is a link of the image.
TEST_F(Attack, Cve202130465LinkInPlaceOfATarget) {
  const auto attack = [](BrokerRig& rig) {
    const std::string target = rig.run() + "/outside";
    std::filesystem::create_directory(target);
    ::chmod(target.c_str(), 0777);
    ask_fresh(rig, "list /", fmt::format("ln -s {} workspace", target));
    return std::filesystem::exists(target + "/repo");
  };
  BrokerRig defended;
  defended.call(ListLayers{});
  EXPECT_FALSE(attack(defended));
  BrokerRig open(without("rooted_targets"));
  open.call(ListLayers{});
  EXPECT_TRUE(attack(open));
}

// A directory of the host stays open over the execution of PID 1.
TEST_F(Attack, Cve202421626LeakedDirectory) {
  const auto attack = [](BrokerRig& rig) {
    const CreateSandbox request = rig.request();
    const os::UniqueFd pidfd = rig.create(request);
    for (int fd = 8; fd < 64; ++fd) {
      const std::string seen = rig.ask(request.session, fmt::format("list /proc/self/fd/{}", fd));
      if (seen.find(request.layers.front()) != std::string::npos) return true;
    }
    return false;
  };
  BrokerRig defended;
  EXPECT_FALSE(attack(defended));
  BrokerRig open(without("closed_descriptors"));
  EXPECT_TRUE(attack(open));
}

// The release_agent needs CAP_SYS_ADMIN and a view of the cgroups above.
TEST_F(Attack, Cve20220492CgroupsOfTheHost) {
  const auto attack = [](BrokerRig& rig) {
    const std::string status = ask_fresh(rig, "read /proc/self/status");
    const std::size_t place = status.find("CapEff:");
    const auto capabilities = std::strtoull(status.c_str() + place + 7, nullptr, 16);
    return (capabilities >> 21 & 1U) != 0 &&
           ask_fresh(rig, "read /proc/self/cgroup").find("0::/\n") == std::string::npos;
  };
  BrokerRig defended;
  EXPECT_FALSE(attack(defended));
  BrokerRig open(without("dropped_privileges"));
  EXPECT_TRUE(attack(open));
}

// What /proc says of the host is covered by a device that must be the real null.
TEST_F(Attack, Cve202531133PathThatIsNotMasked) {
  BrokerRig defended;
  EXPECT_TRUE(ask_fresh(defended, "stat /proc/interrupts").ends_with(" 1:3"));
  EXPECT_EQ(ask_fresh(defended, "read /proc/interrupts"), "");
  BrokerRig open(without("masked_paths"));
  EXPECT_NE(ask_fresh(open, "read /proc/interrupts"), "");
}

}  // namespace
}  // namespace daiv::runtime::test
