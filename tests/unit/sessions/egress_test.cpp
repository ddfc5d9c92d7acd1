#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sessions/egress_environment.hpp"
#include "sessions/egress_files.hpp"
#include "wire/codec.hpp"

namespace daiv::sessions {
namespace {

constexpr runtime::EgressLink link{0x647c0005, 0x647c0006, 8080};

EgressPolicy sample() {
  EgressPolicy policy;
  policy.fallback = EgressDefault::allow;
  policy.intercept = EgressIntercept::all;
  policy.rules = {{"*.a.test", {"GET", "POST"}, "token"}, {"b.test", {}, std::nullopt}};
  policy.secrets = {{"token", {"Authorization", std::string("B\0x", 3)}}};
  return policy;
}

bool has(const std::vector<std::string>& lines, const std::string& line) {
  return std::ranges::find(lines, line) != lines.end();
}

std::size_t count(const std::vector<std::string>& lines, const std::string& prefix) {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines, [&](const auto& line) { return line.starts_with(prefix); }));
}

TEST(EgressEnvironment, HasElevenNamesThatWin) {
  const auto lines =
      with_egress({"HTTP_PROXY=http://mine", "SSL_CERT_FILE=/mine", "PATH=/bin"}, link);
  for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"})
    EXPECT_TRUE(has(lines, std::string(name) + "=http://100.124.0.5:8080")) << name;
  for (const char* name : {"NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE",
                           "CURL_CA_BUNDLE", "SSL_CERT_FILE", "PIP_CERT"})
    EXPECT_TRUE(has(lines, std::string(name) + "=/etc/ssl/certs/ca-certificates.crt")) << name;
  EXPECT_EQ(count(lines, "HTTP_PROXY="), 1U);
  EXPECT_TRUE(has(lines, "PATH=/bin"));
}

TEST(EgressEnvironment, KeepsLoopbackDirectUnlessTheCallerSaysOtherwise) {
  const auto plain = with_egress({}, link);
  EXPECT_TRUE(has(plain, "NO_PROXY=localhost,127.0.0.1,::1"));
  EXPECT_TRUE(has(plain, "no_proxy=localhost,127.0.0.1,::1"));
  EXPECT_TRUE(has(plain, "NODE_USE_ENV_PROXY=1"));
  const auto own = with_egress({"no_proxy=db", "NODE_USE_ENV_PROXY=0"}, link);
  EXPECT_TRUE(has(own, "no_proxy=db"));
  EXPECT_EQ(count(own, "NO_PROXY="), 0U);
  EXPECT_TRUE(has(own, "NODE_USE_ENV_PROXY=0"));
}

TEST(EgressEnvironment, TellsJavaAboutTheProxyUnlessTheCallerHasOptions) {
  const auto plain = with_egress({}, link);
  EXPECT_EQ(count(plain, "JAVA_TOOL_OPTIONS=-Dhttp.proxyHost="), 1U);
  const auto own = with_egress({"JAVA_TOOL_OPTIONS=-Xmx1g"}, link);
  EXPECT_TRUE(has(own, "JAVA_TOOL_OPTIONS=-Xmx1g"));
  EXPECT_EQ(count(own, "JAVA_TOOL_OPTIONS="), 1U);
}

TEST(EgressPolicyFile, EveryPolicySurvivesAndEveryTruncationIsRefused) {
  const std::string bytes = encode(sample());
  EXPECT_EQ(decode_egress_policy(bytes), sample());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_egress_policy(bytes.substr(0, length)), wire::DecodeError) << length;
  EXPECT_THROW(decode_egress_policy(bytes + "x"), wire::DecodeError);
}

class Files : public testing::Test {
protected:
  Files() {
    std::string path = testing::TempDir() + "/egress-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  ~Files() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

TEST_F(Files, AreFoundByTheNextDaemonAndReadableByNobodyElse) {
  EgressFiles(directory_).save("s", sample(), 1);
  EgressFiles next(directory_);
  EXPECT_EQ(next.find("s"), sample());
  EXPECT_EQ(next.list(), std::vector<std::string>{"s"});
  struct stat status{};
  ASSERT_EQ(::stat((directory_ + "/s").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  next.remove("s");
  next.remove("s");
  EXPECT_FALSE(next.find("s"));
}

TEST_F(Files, AnOlderVersionDoesNotReplaceANewerOne) {
  EgressFiles files(directory_);
  files.save("s", sample(), 2);
  files.save("s", EgressPolicy{}, 1);
  EXPECT_EQ(files.find("s"), sample());
}

TEST_F(Files, ADamagedOneIsAsIfItWereLost) {
  std::ofstream(directory_ + "/s") << "junk";
  EXPECT_FALSE(EgressFiles(directory_).find("s"));
}

}  // namespace
}  // namespace daiv::sessions
