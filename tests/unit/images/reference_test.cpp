#include "images/reference.hpp"

#include <gtest/gtest.h>

namespace daiv::images {
namespace {

const std::string hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string sha256 = "sha256:" + hex64;

TEST(Reference, IsCompletedAsDockerDoes) {
  const std::pair<std::string, std::string> cases[] = {
      {"debian", "docker.io/library/debian:latest"},
      {"debian:12-slim", "docker.io/library/debian:12-slim"},
      {"library/debian", "docker.io/library/debian:latest"},
      {"user/app", "docker.io/user/app:latest"},
      {"docker.io/debian", "docker.io/library/debian:latest"},
      {"index.docker.io/debian", "docker.io/library/debian:latest"},
      {"index.docker.io/user/app:1", "docker.io/user/app:1"},
      {"ghcr.io/a/b:tag", "ghcr.io/a/b:tag"},
      {"localhost/a", "localhost/a:latest"},
      {"localhost:5000/a", "localhost:5000/a:latest"},
      {"host:5000/x@" + sha256, "host:5000/x@" + sha256},
      {"host:5000/x:t@" + sha256, "host:5000/x:t@" + sha256},
      {"debian@" + sha256, "docker.io/library/debian@" + sha256},
      {"[::1]:5000/a/b", "[::1]:5000/a/b:latest"},
      {"[fd00::2]/a", "[fd00::2]/a:latest"},
      {"127.0.0.1:80/a", "127.0.0.1:80/a:latest"},
      // An upper-case letter can't be in a path, so it makes the first component a host.
      {"HOST/app", "HOST/app:latest"},
      {"a.b/c__d/e-f--g.h_i:X_.-9", "a.b/c__d/e-f--g.h_i:X_.-9"},
      {"a/b/c/d", "docker.io/a/b/c/d:latest"},
      {hex64 + "0", "docker.io/library/" + hex64 + "0:latest"},
      {"debian:5000", "docker.io/library/debian:5000"},
  };
  for (const auto& [given, full] : cases) {
    const auto reference = parse_reference(given);
    ASSERT_TRUE(reference) << given << ": " << reference.error().text;
    EXPECT_EQ(reference->string(), full) << given;
  }
}

TEST(Reference, KnowsItsParts) {
  const auto reference = parse_reference("host:5000/a/b:t@" + sha256).value();
  EXPECT_EQ(reference.domain, "host:5000");
  EXPECT_EQ(reference.path, "a/b");
  EXPECT_EQ(reference.tag, "t");
  EXPECT_EQ(reference.digest->string(), sha256);
  EXPECT_EQ(reference.name(), "host:5000/a/b");
}

TEST(Reference, IsRefusedWhereDockerRefusesIt) {
  const std::string cases[] = {"",
                               " ",
                               ":",
                               ":tag",
                               "@" + sha256,
                               "/",
                               "/debian",
                               "debian/",
                               "a//b",
                               "Debian",
                               "library/Debian",
                               "ghcr.io/A/b",
                               "debian:",
                               "debian:-x",
                               "debian:.x",
                               "debian:a b",
                               "debian:a/b",
                               "debian@",
                               "debian@sha256:",
                               "debian@sha256:abc",
                               "debian@sha256:" + std::string(64, 'G'),
                               "debian@sha256:" + std::string(64, 'A'),
                               "debian@md5:" + std::string(32, 'a'),
                               "debian@" + sha256 + ":tag",
                               "debian@" + sha256 + "@" + sha256,
                               "-host.io/a",
                               "host-.io/a",
                               "host..io/a",
                               "host:/a",
                               "host:x/a",
                               "_a",
                               "a_",
                               "a.",
                               ".a",
                               "a..b",
                               "a___b",
                               "a._b",
                               "-a",
                               "a-",
                               "[::1/a",
                               "[]/a",
                               "[::g]/a",
                               "host:5000",
                               hex64 + "/",
                               "a:b:c",
                               "../etc",
                               "a/../b",
                               std::string("debian\0x", 8),
                               "debian\n",
                               "d\xc3\xa9"
                               "bian",
                               "https://ghcr.io/a/b",
                               "docker.io/",
                               "user@host/a",
                               "host/a?b",
                               "host/a#b",
                               "host.io/a%2fb"};
  for (const auto& given : cases) {
    if (given == "host:5000") continue;  // is docker.io/library/host:5000, as in Docker
    EXPECT_FALSE(parse_reference(given)) << given;
  }
}

TEST(Reference, HasLimitsOfLength) {
  EXPECT_TRUE(parse_reference("a:" + std::string(128, 't')));
  EXPECT_FALSE(parse_reference("a:" + std::string(129, 't')));
  EXPECT_TRUE(parse_reference("h.io/" + std::string(255, 'a')));
  EXPECT_FALSE(parse_reference("h.io/" + std::string(256, 'a')));
  EXPECT_TRUE(parse_reference(std::string(295, 'h') + ".io:1/a"));
  EXPECT_FALSE(parse_reference(std::string(296, 'h') + ".io:1/a"));
  // "library/" counts, too.
  EXPECT_TRUE(parse_reference(std::string(247, 'a')));
  EXPECT_FALSE(parse_reference(std::string(248, 'a')));
  EXPECT_FALSE(parse_reference(std::string(100'000, 'a')));
}

TEST(Reference, AnImageIdIsNotAName) {
  EXPECT_FALSE(parse_reference(hex64));
  EXPECT_TRUE(parse_reference("h.io/" + hex64));
}

TEST(Reference, ErrorsNameTheInputAndTheReason) {
  EXPECT_EQ(parse_reference("Debian").error().text,
            "invalid image reference \"Debian\": the repository name must be lower case");
  EXPECT_EQ(parse_reference("a\n:x").error().text.find('\n'), std::string::npos);
  EXPECT_TRUE(parse_reference("d\xc3\xa9").error().text.contains("\"d??\""));
}

TEST(Reference, ReadsItsOwnTextAgain) {
  for (const std::string& given :
       {std::string("debian"), std::string("h:1/a/b:c"), "a@" + sha256}) {
    const auto reference = parse_reference(given).value();
    EXPECT_EQ(parse_reference(reference.string()).value(), reference);
  }
}

}  // namespace
}  // namespace daiv::images
