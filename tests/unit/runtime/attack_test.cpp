// Past holes of container runtimes, tried from inside a sandbox: each attack fails, and succeeds
// where the one defence against it is switched off, or the test would prove nothing. Built with the
// option attack_switches only.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "broker_rig.hpp"
#include "os/io.hpp"

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

// A file of the host that anybody may read and write, on a path that anybody may walk.
std::string make_secret(BrokerRig& rig) {
  rig.call(ListLayers{});  // the directory exists by now
  std::string path = rig.run() + "/secret";
  os::write_full(os::open_file(path, O_WRONLY | O_CREAT, 0666), "secret");
  ::chmod(path.c_str(), 0666);
  return path;
}

// What a process of the session's uid could write through the handle.
bool overwrite(const os::UniqueFd& handle, std::uint32_t uid) {
  const std::string path = fmt::format("/proc/self/fd/{}", handle.get());
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::setresuid(uid, uid, uid) != 0) ::_exit(2);
    const int fd = ::open(path.c_str(), O_WRONLY);
    ::_exit(fd >= 0 && ::write(fd, "owned", 5) == 5 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status == 0;
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

// A handle on the runtime's own program, taken inside, writes to it when nobody executes it any
// more: the next start is the attacker's.
TEST_F(Attack, Cve20195736AgentsProgramIsOverwritten) {
  const auto attack = [](BrokerRig& rig) {
    const CreateSandbox request = rig.request();
    const os::UniqueFd pidfd = rig.create(request);
    const std::string held = rig.ask(request.session, "hold /proc/self/exe");
    if (held.starts_with("error")) return false;
    const os::UniqueFd handle(
        static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), std::atoi(held.c_str()), 0)));
    rig.call(RemoveSandbox{request.session});
    const bool written = overwrite(handle, request.uid_base);
    return written && os::read_file(rig.run() + "/agent", 64U << 20).starts_with("owned");
  };
  BrokerRig defended;
  EXPECT_FALSE(attack(defended));
  BrokerRig open(without("sealed_agent"));
  EXPECT_TRUE(attack(open));
}

// A hierarchy of cgroups, whose release_agent the host executes, is mounted with CAP_SYS_ADMIN.
TEST_F(Attack, Cve20220492CgroupsAreMountedInside) {
  BrokerRig defended;
  EXPECT_EQ(ask_fresh(defended, "mount cgroup2"), "error mount EPERM");
  BrokerRig open(without("dropped_privileges"));
  EXPECT_EQ(ask_fresh(open, "mount cgroup2"), "ok");
}

// Masks were the image's /dev/null: a link there opens what it names, through the masked path.
TEST_F(Attack, Cve202531133MaskIsALinkOfTheImage) {
  const auto attack = [](BrokerRig& rig) {
    const std::string secret = make_secret(rig);
    const std::string said = ask_fresh(rig, "write /proc/interrupts",
                                       fmt::format("mkdir dev && ln -s {} dev/null", secret));
    EXPECT_EQ(said, "ok");  // to the real null as well
    return os::read_file(secret, 100) != "secret";
  };
  BrokerRig defended;
  EXPECT_FALSE(attack(defended));
  BrokerRig open(without("host_devices"));
  EXPECT_TRUE(attack(open));
}

// The source of a bind mount in /dev was a link of the image.
TEST_F(Attack, Cve202552565NodeIsALinkOfTheImage) {
  const auto attack = [](BrokerRig& rig) {
    const std::string script = fmt::format("mkdir dev && ln -s {} dev/tty", make_secret(rig));
    return ask_fresh(rig, "read /dev/tty", script) == "secret";
  };
  BrokerRig defended;
  EXPECT_FALSE(attack(defended));
  BrokerRig open(without("host_devices"));
  EXPECT_TRUE(attack(open));
}

// The procfs lies elsewhere, and what is said to the kernel through /proc goes to files of the
// image.
TEST_F(Attack, Cve202552881ProcIsATreeOfTheImage) {
  const auto attack = [](BrokerRig& rig) {
    rig.call(ListLayers{});
    const std::string elsewhere = rig.run() + "/elsewhere";
    std::filesystem::create_directory(elsewhere);
    const std::string script = fmt::format(
        "ln -s {0} proc && mkdir -p .{0}/self/attr && echo fake > .{0}/self/attr/exec", elsewhere);
    return ask_fresh(rig, "read /proc/self/attr/exec", script) == "fake\n";
  };
  BrokerRig defended;
  EXPECT_FALSE(attack(defended));
  BrokerRig open(without("verified_proc"));
  EXPECT_TRUE(attack(open));
}

}  // namespace
}  // namespace daiv::runtime::test
