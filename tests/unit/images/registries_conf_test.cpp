#include "images/registries_conf.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "os/io.hpp"

namespace daiv::images {
namespace {

const std::string digest = "@sha256:" + std::string(64, 'a');

RegistriesConf conf_of(std::string_view text) {
  auto conf = RegistriesConf::parse(text, "test.conf");
  EXPECT_TRUE(conf) << conf.error().text;
  return *std::move(conf);
}

// "authority/repository" of each source, "!" before an insecure one.
std::vector<std::string> sources(const RegistriesConf& conf, const std::string& reference) {
  const auto found = conf.sources(parse_reference(reference).value());
  if (!found) return {"blocked " + found.error().prefix};
  std::vector<std::string> names;
  for (const auto& source : *found) {
    names.push_back((source.transport == Transport::insecure ? "!" : "") + source.authority + "/" +
                    source.repository);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(RegistriesConf, WithoutFileEveryRegistryIsItself) {
  const auto conf = RegistriesConf::read("/nonexistent/registries.conf").value();
  EXPECT_EQ(sources(conf, "debian"), Names{"registry-1.docker.io/library/debian"});
  EXPECT_EQ(sources(conf, "ghcr.io/a/b"), Names{"ghcr.io/a/b"});
}

TEST(RegistriesConf, LoopbackMayBePlainHttpAsInDocker) {
  const RegistriesConf conf;
  EXPECT_EQ(sources(conf, "localhost:5000/a"), Names{"!localhost:5000/a"});
  EXPECT_EQ(sources(conf, "127.1.2.3/a"), Names{"!127.1.2.3/a"});
  EXPECT_EQ(sources(conf, "[::1]:5000/a"), Names{"![::1]:5000/a"});
  EXPECT_EQ(sources(conf, "127.0.0.1.example.com/a"), Names{"127.0.0.1.example.com/a"});
  EXPECT_EQ(sources(conf, "localhost.example.com/a"), Names{"localhost.example.com/a"});
  EXPECT_EQ(sources(conf, "10.0.0.1/a"), Names{"10.0.0.1/a"});
}

TEST(RegistriesConf, TheSearchListIsNotApplied) {
  EXPECT_EQ(sources(conf_of(R"(unqualified-search-registries = ["quay.io"])"), "app"),
            Names{"registry-1.docker.io/library/app"});
}

TEST(RegistriesConf, MirrorsComeInOrderAndTheRegistryLast) {
  const auto conf = conf_of(R"(
[[registry]]
location = "docker.io"
[[registry.mirror]]
location = "mirror-1.example.com/hub"
[[registry.mirror]]
location = "mirror-2.example.com:5000"
insecure = true
)");
  EXPECT_EQ(sources(conf, "debian"), (Names{"mirror-1.example.com/hub/library/debian",
                                            "!mirror-2.example.com:5000/library/debian",
                                            "registry-1.docker.io/library/debian"}));
  EXPECT_EQ(sources(conf, "docker.io.example.com/a"), Names{"docker.io.example.com/a"});
}

TEST(RegistriesConf, AMirrorIsAskedForWhatItIsMeantFor) {
  const auto conf = conf_of(R"(
[[registry]]
location = "a.example.com"
[[registry.mirror]]
location = "digests.example.com"
pull-from-mirror = "digest-only"
[[registry.mirror]]
location = "tags.example.com"
pull-from-mirror = "tag-only"
[[registry]]
location = "b.example.com"
mirror-by-digest-only = true
[[registry.mirror]]
location = "digests.example.com"
)");
  EXPECT_EQ(sources(conf, "a.example.com/x"), (Names{"tags.example.com/x", "a.example.com/x"}));
  EXPECT_EQ(sources(conf, "a.example.com/x" + digest),
            (Names{"digests.example.com/x", "a.example.com/x"}));
  EXPECT_EQ(sources(conf, "b.example.com/x"), Names{"b.example.com/x"});
  EXPECT_EQ(sources(conf, "b.example.com/x" + digest),
            (Names{"digests.example.com/x", "b.example.com/x"}));
}

TEST(RegistriesConf, TheLongestPrefixWins) {
  const auto conf = conf_of(R"(
[[registry]]
prefix = "example.com/foo"
location = "other.com/bar"
[[registry]]
prefix = "example.com/foo/secret"
location = "example.com/foo/secret"
blocked = true
[[registry]]
location = "example.com"
insecure = true
)");
  EXPECT_EQ(sources(conf, "example.com/foo/app"), Names{"other.com/bar/app"});
  EXPECT_EQ(sources(conf, "example.com/foo/secret/app"), Names{"blocked example.com/foo/secret"});
  EXPECT_EQ(sources(conf, "example.com/foobar"), Names{"!example.com/foobar"});
  // Podman matches other ports of the host, too: what is blocked stays blocked there.
  EXPECT_EQ(sources(conf, "example.com:5000/foo/app"), Names{"!example.com:5000/foo/app"});
}

TEST(RegistriesConf, WildcardsMatchSubdomains) {
  const auto conf = conf_of(R"(
[[registry]]
prefix = "*.example.com"
insecure = true
[[registry]]
prefix = "*.bad.example.com"
blocked = true
[[registry]]
prefix = "*.moved.com"
location = "new.com/old"
)");
  EXPECT_EQ(sources(conf, "a.example.com/x"), Names{"!a.example.com/x"});
  EXPECT_EQ(sources(conf, "a.b.example.com/x"), Names{"!a.b.example.com/x"});
  EXPECT_EQ(sources(conf, "a.bad.example.com/x"), Names{"blocked *.bad.example.com"});
  EXPECT_EQ(sources(conf, "example.com/x"), Names{"example.com/x"});
  EXPECT_EQ(sources(conf, "evil.com/a.example.com/x"), Names{"evil.com/a.example.com/x"});
  EXPECT_EQ(sources(conf, "a.moved.com/x/y"), Names{"new.com/old/x/y"});
}

TEST(RegistriesConf, FaultsAreReportedWithFileAndKey) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"[[registry]]\nlocation = 5", "location"},
      {"[[registry]]\nlocation = \"a.com\"\ninsecure = \"yes\"", "insecure"},
      {"[[registry]]\nlocation = \"https://a.com\"", "https://a.com"},
      {"[[registry]]\nlocation = \"a.com/\"", "a.com/"},
      {"[[registry]]\nblocked = true", "location"},
      {"[[registry]]\nprefix = \"a.com\"", "a.com"},
      {"[[registry]]\nprefix = \"a.*.com\"\nlocation = \"b.com\"", "prefix"},
      {"registry = 1", "registry"},
      {"[registries.search]\nregistries = []", "version 1"},
      {"[[registry]\n", "line 1"},
      {"[[registry]]\nlocation = \"a.com\"\n[[registry.mirror]]\ninsecure = true", "location"},
      {"[[registry]]\nlocation = \"a.com\"\n[[registry.mirror]]\nlocation = "
       "\"b.com\"\npull-from-mirror = \"never\"",
       "never"},
      {"[[registry]]\nlocation = \"a.com\"\nmirror-by-digest-only = "
       "true\n[[registry.mirror]]\nlocation = "
       "\"b.com\"\npull-from-mirror = \"all\"",
       "pull-from-mirror"},
  };
  for (const auto& [text, part] : cases) {
    const auto conf = RegistriesConf::parse(text, "test.conf");
    ASSERT_FALSE(conf) << text;
    EXPECT_NE(conf.error().text.find(part), std::string::npos) << conf.error().text;
    EXPECT_TRUE(conf.error().text.starts_with("test.conf: ")) << conf.error().text;
  }
}

class TempDirectory {
public:
  TempDirectory() { EXPECT_NE(::mkdtemp(path_), nullptr); }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  [[nodiscard]] std::string path() const { return path_; }
  void write(const std::string& name, std::string_view text) const {
    os::write_full(os::open_file(path() + "/" + name, O_WRONLY | O_CREAT, 0600), text);
  }

private:
  char path_[32] = "/tmp/registries-XXXXXX";
};

TEST(RegistriesConf, DropInsAreReadByNameAndReplaceTables) {
  const TempDirectory directory;
  directory.write(
      "registries.conf",
      "[[registry]]\nlocation = \"a.com\"\nblocked = true\n[[registry]]\nlocation = \"b.com\"\n"
      "insecure = true\n");
  ASSERT_EQ(::mkdir((directory.path() + "/registries.conf.d").c_str(), 0700), 0);
  directory.write("registries.conf.d/20-later.conf",
                  "[[registry]]\nlocation = \"a.com\"\ninsecure = true\n");
  directory.write("registries.conf.d/10-earlier.conf",
                  "[[registry]]\nlocation = \"a.com\"\nblocked = true\n");
  directory.write("registries.conf.d/99-other.txt", "not toml at all [");
  const auto conf = RegistriesConf::read(directory.path() + "/registries.conf");
  ASSERT_TRUE(conf) << conf.error().text;
  EXPECT_EQ(sources(*conf, "a.com/x"), Names{"!a.com/x"});
  EXPECT_EQ(sources(*conf, "b.com/x"), Names{"!b.com/x"});

  directory.write("registries.conf.d/30-broken.conf", "[[registry]");
  const auto broken = RegistriesConf::read(directory.path() + "/registries.conf");
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().text.find("30-broken.conf"), std::string::npos);
}

}  // namespace
}  // namespace daiv::images
