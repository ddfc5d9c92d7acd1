#include "images/docker_config.hpp"

#include <gtest/gtest.h>

namespace daiv::images {
namespace {

DockerConfig config_of(std::string_view json) { return DockerConfig::parse(json).value(); }

std::string user_for(const DockerConfig& config, std::string_view name) {
  const auto found = config.find(name);
  return found ? found->username : "none";
}

TEST(DockerConfig, PasswordsMayHaveColonsAndAts) {
  // user:p@ss:w:rd
  const auto found =
      config_of(R"({"auths":{"r.io":{"auth":"dXNlcjpwQHNzOnc6cmQ="}}})").find("r.io/a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->username, "user");
  EXPECT_EQ(found->password, "p@ss:w:rd");
}

TEST(DockerConfig, TheLongestPrefixWins) {
  const auto config = config_of(R"({"auths":{
    "r.io":{"username":"host","password":"x"}, "r.io/org":{"username":"org","password":"x"},
    "r.io/org/repo":{"username":"repo","password":"x"}}})");
  EXPECT_EQ(user_for(config, "r.io/other/a"), "host");
  EXPECT_EQ(user_for(config, "r.io/org/a"), "org");
  EXPECT_EQ(user_for(config, "r.io/org/repo"), "repo");
  EXPECT_EQ(user_for(config, "r.io/organ/a"), "host");
  EXPECT_EQ(user_for(config, "other.io/org/repo"), "none");
  EXPECT_EQ(user_for(config, "evil-r.io/org"), "none");
  EXPECT_EQ(user_for(config, "r.io:5000/org"), "none");
}

TEST(DockerConfig, DockerHubIsFoundUnderEachOfItsNames) {
  for (const std::string key :
       {"https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"}) {
    const auto config =
        config_of(R"({"auths":{")" + key + R"(":{"username":"u","password":"p"}}})");
    EXPECT_EQ(user_for(config, "docker.io/library/debian"), "u") << key;
    EXPECT_EQ(user_for(config, "quay.io/library/debian"), "none") << key;
  }
}

TEST(DockerConfig, SchemesAndApiPathsOfKeysDoNotMatter) {
  for (const std::string key : {"https://r.io", "http://r.io/", "https://r.io/v2/", "r.io/v1"}) {
    EXPECT_EQ(user_for(config_of(R"({"auths":{")" + key + R"(":{"username":"u"}}})"), "r.io/a/b"),
              "u")
        << key;
  }
}

TEST(DockerConfig, TokensAreKept) {
  const auto config = config_of(
      R"({"auths":{"a.io":{"auth":"dTo=","identitytoken":"idt"},"b.io":{"registrytoken":"rt"}}})");
  EXPECT_EQ(config.find("a.io/x")->identity_token, "idt");
  EXPECT_EQ(config.find("b.io/x")->registry_token, "rt");
}

TEST(DockerConfig, BrokenEntriesDoNotSpoilOthers) {
  const auto config = config_of(
      R"({"auths":{"a.io":{"auth":"%%%"},"b.io":5,"c.io":{},"d.io":{"auth":"bm9jb2xvbg=="},
    "e.io":{"username":"x\r\nEvil: 1"},"z.io":{"username":"z"}},"credHelpers":{"h.io":5},"credsStore":[]})");
  for (const auto* name : {"a.io/x", "b.io/x", "c.io/x", "d.io/x", "e.io/x"})
    EXPECT_EQ(user_for(config, name), "none") << name;
  EXPECT_EQ(user_for(config, "z.io/x"), "z");
  EXPECT_FALSE(config.find_helper("h.io/x"));
  for (const std::string_view text : {"", "[]", "null", "{"})
    EXPECT_FALSE(DockerConfig::parse(text)) << text;
}

TEST(DockerConfig, HelpersAreThoseOfTheHostElseTheStore) {
  const auto config = config_of(
      R"({"credsStore":"store","credHelpers":{"gcr.io":"gcloud","off.io":"","docker.io":"hub"}})");
  EXPECT_EQ(config.find_helper("gcr.io/a/b")->helper, "gcloud");
  EXPECT_EQ(config.find_helper("gcr.io/a/b")->server, "gcr.io");
  EXPECT_EQ(config.find_helper("docker.io/library/x")->server, "https://index.docker.io/v1/");
  EXPECT_EQ(config.find_helper("quay.io/a")->helper, "store");
  EXPECT_EQ(config.find_helper("quay.io/a")->server, "quay.io");
  EXPECT_FALSE(config.find_helper("off.io/a"));
  EXPECT_FALSE(config_of("{}").find_helper("quay.io/a"));
}

TEST(HelperOutput, IsCredentialsOrNothing) {
  const auto plain = parse_helper_output(R"({"ServerURL":"x","Username":"u","Secret":"p:@"})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->password, "p:@");
  EXPECT_EQ(parse_helper_output(R"({"Username":"<token>","Secret":"idt"})")->identity_token, "idt");
  for (const std::string& junk :
       {std::string(), std::string("credentials not found in native keychain"), std::string("{}"),
        std::string("[1]"), std::string(R"({"Username":"","Secret":"p"})"),
        std::string(R"({"Username":1,"Secret":2})"),
        std::string(R"({"Username":"u","Secret":"a\nb"})"), std::string("\x7f\x45LF\0\1", 6),
        R"({"Username":"u","Secret":")" + std::string(max_helper_output_bytes, 'x') + "\"}"}) {
    EXPECT_FALSE(parse_helper_output(junk));
  }
}

}  // namespace
}  // namespace daiv::images
