#include "runtime/credential_helper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>

#include "os/io.hpp"

namespace daiv::runtime {
namespace {

using namespace std::chrono_literals;

// A script where helpers are looked for, under a name that no other test has.
class InstalledHelper {
public:
  explicit InstalledHelper(const std::string& script)
      : name_(fmt::format("daiv-test-{}", ::getpid())),
        path_("/usr/local/bin/docker-credential-" + name_) {
    os::write_full(os::open_file(path_, O_WRONLY | O_CREAT | O_TRUNC, 0755),
                   "#!/bin/sh\n" + script + "\n");
    ::chmod(path_.c_str(), 0755);
  }
  InstalledHelper(const InstalledHelper&) = delete;
  InstalledHelper& operator=(const InstalledHelper&) = delete;
  ~InstalledHelper() { ::unlink(path_.c_str()); }

  [[nodiscard]] Answer run(std::chrono::milliseconds limit = 20s) const {
    return run_credential_helper({name_, "registry.example"}, limit);
  }

private:
  std::string name_;
  std::string path_;
};

class CredentialHelper : public testing::Test {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: it gives its rights away";
    ::signal(SIGPIPE, SIG_IGN);  // as the broker does
  }
};

std::string text_of(const Answer& answer) {
  if (const auto* failed = std::get_if<Failed>(&answer)) return "failed: " + failed->message;
  return std::get<Credential>(answer).output;
}

Failure failure_of(const Answer& answer) { return std::get<Failed>(answer).kind; }

TEST_F(CredentialHelper, IsAskedForTheServer) {
  const InstalledHelper helper("read server; echo \"$1 $server\"");
  EXPECT_EQ(text_of(helper.run()), "get registry.example\n");
}

TEST_F(CredentialHelper, RunsAsNobodyWithNothingOfTheBrokers) {
  ASSERT_EQ(::setenv("SECRET", "of-the-broker", 1), 0);
  const os::UniqueFd shadow(::open("/etc/shadow", O_RDONLY));
  const os::UniqueFd leak(::fcntl(shadow.get(), F_DUPFD, 50));  // not close-on-exec
  const InstalledHelper helper(
      "id -u; id -g; id -G; grep -e NoNewPrivs -e CapEff -e CapPrm /proc/self/status; env | grep "
      "SECRET; cat /etc/shadow /proc/self/fd/" +
      std::to_string(leak.get()) + "; true");
  const std::string text = text_of(helper.run());
  EXPECT_EQ(text,
            "65534\n65534\n65534\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
            "NoNewPrivs:\t1\n");
}

TEST_F(CredentialHelper, MayEndWithoutReading) {
  const InstalledHelper helper("exec <&-; echo known");
  EXPECT_EQ(text_of(helper.run()), "known\n");
}

TEST_F(CredentialHelper, LeavesNoChildBehind) {
  const InstalledHelper helper("sleep 1000 & echo done");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(text_of(helper.run()), "done\n");  // though the child holds the pipe
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(CredentialHelper, IsKilledAtTheLimit) {
  const InstalledHelper helper("trap '' TERM; sleep 1000");
  const auto begin = std::chrono::steady_clock::now();
  const Answer answer = helper.run(1s);
  EXPECT_EQ(failure_of(answer), Failure::internal);
  EXPECT_NE(text_of(answer).find("took longer than 1 s"), std::string::npos) << text_of(answer);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(CredentialHelper, IsCutOffAboveSixteenKibibytes) {
  EXPECT_EQ(text_of(InstalledHelper("head -c 16384 /dev/zero").run()).size(), 16384U);
  EXPECT_EQ(failure_of(InstalledHelper("head -c 16385 /dev/zero").run()), Failure::internal);
  EXPECT_EQ(failure_of(InstalledHelper("cat /dev/zero").run()), Failure::internal);
}

// The broker parses nothing of it: the front does.
TEST_F(CredentialHelper, JunkComesThroughAsItIs) {
  const InstalledHelper helper("printf '{\\000\\377]'");
  EXPECT_EQ(text_of(helper.run()), std::string("{\0\xff]", 4));
}

TEST_F(CredentialHelper, OneThatFailsHasNoCredential) {
  const InstalledHelper helper("echo credentials not found in native keychain; exit 1");
  EXPECT_EQ(failure_of(helper.run()), Failure::not_found);
}

}  // namespace
}  // namespace daiv::runtime
