#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "os/error.hpp"
#include "sandboxed_agent.hpp"
#include "tar_builder.hpp"

namespace daiv::agent::test {
namespace {

using namespace std::chrono_literals;

struct SeedLimits {
  std::uint64_t bytes = 1U << 30;
  std::uint64_t entries = 100'000;
};

void send_archive(FrontConnection& connection, SeedTarget target, std::string_view archive) {
  for (std::size_t at = 0; at < archive.size(); at += chunk_bytes)
    connection.send(RequestType::seed_data,
                    SeedData{target, false, archive.substr(at, chunk_bytes)}.encode());
  connection.send(RequestType::seed_data, SeedData{target, true, {}}.encode());
}

SeedDone seed(const SandboxedAgent& agent, std::optional<std::string> repo,
              std::optional<std::string> skills = {}, SeedLimits limits = {}) {
  auto connection = agent.connect();
  try {
    connection.send(RequestType::seed, SeedRequest{limits.bytes, limits.entries}.encode());
    if (repo) send_archive(connection, SeedTarget::repo, *repo);
    if (skills) send_archive(connection, SeedTarget::skills, *skills);
    connection.send(RequestType::seed_end, {});
  } catch (const os::Error&) {  // it has answered already
  }
  const auto answer = connection.receive();
  if (answer.type == AnswerType::failed)
    throw std::runtime_error(Failed::decode(answer.payload).message);
  return SeedDone::decode(answer.payload);
}

class Seed : public testing::Test {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    agent.emplace();
  }
  std::string run(std::string_view command) const { return agent->exec(command, 20s).output; }
  std::string everything() const {
    return run(
        "ls -A /workspace; find . ../skills -mindepth 1 | LC_ALL=C sort | while read -r f; do stat "
        "-c '%n %F %a %u:%g' \"$f\"; done");
  }
  void expect_seeded(const SeedDone& done) const {
    EXPECT_EQ(done.outcome, SeedOutcome::seeded) << done.message;
  }
  // The archive is refused with this text and nothing of it is left.
  void expect_refused(const std::string& archive, std::string_view text) const {
    const auto done = seed(*agent, archive);
    EXPECT_EQ(done.outcome, SeedOutcome::invalid_archive) << done.message;
    EXPECT_TRUE(done.message.starts_with(text)) << done.message;
    EXPECT_EQ(everything(), "repo\nskills\ntmp\n");
  }

  std::optional<SandboxedAgent> agent;
};

constexpr std::string_view invalid = "Invalid or truncated archive: ";

TEST_F(Seed, BothArchivesLandInTheirFolders) {
  expect_seeded(seed(*agent, TarBuilder().file("README.md", "# hi\n").finish(),
                     TarBuilder().file("review/SKILL.md", "skill\n").finish()));
  EXPECT_EQ(run("cat README.md ../skills/review/SKILL.md; ls -A /workspace"),
            "# hi\nskill\nrepo\nskills\ntmp\n");
}

TEST_F(Seed, MergesWithWhatIsThere) {
  run("echo old > same; echo stays > other; mkdir dir; echo x > dir/x; ln -s /etc away; mkdir "
      "full; touch full/x");
  expect_seeded(seed(*agent, TarBuilder()
                                 .file("same", "new\n")
                                 .file("dir/y", "y")
                                 .file("away/z", "z")
                                 .file("full", "f")
                                 .finish()));
  EXPECT_EQ(run("cat same other full; ls dir away; ls -A /workspace"),
            "new\nstays\nfaway:\nz\n\ndir:\nx\ny\nrepo\nskills\ntmp\n");
}

TEST_F(Seed, RecognisesCompressionByContent) {
  const auto tar = TarBuilder().file("a.txt", "alpha\n").file("d/b.txt", "beta\n").finish();
  for (const char* command : {"cat", "gzip", "bzip2", "xz", "zstd -q"}) {
    SCOPED_TRACE(command);
    expect_seeded(seed(*agent, filter_through(command, tar)));
    EXPECT_EQ(run("cat a.txt d/b.txt; rm -r a.txt d"), "alpha\nbeta\n");
  }
  const auto members =
      filter_through("gzip", tar.substr(0, 700)) + filter_through("gzip", tar.substr(700));
  expect_seeded(seed(*agent, members));
  EXPECT_EQ(run("cat a.txt d/b.txt"), "alpha\nbeta\n");
}

TEST_F(Seed, RefusesWhatIsNoWholeArchive) {
  const auto tar = TarBuilder().file("a", std::string(5000, 'x')).file("b", "b").finish();
  expect_refused("this is not a tar archive", invalid);
  expect_refused("", invalid);
  expect_refused(std::string(3000, 'x'), invalid);
  expect_refused(tar.substr(0, 1500), invalid);
  expect_refused(tar.substr(0, 5632 + 100), invalid);
  expect_refused(tar + "garbage", invalid);
  expect_refused(tar + std::string(5000, 'g'), invalid);
  const auto gzip = filter_through("gzip", tar);
  expect_refused(gzip.substr(0, gzip.size() - 4), invalid);
  expect_refused(gzip.substr(0, 60), invalid);
  expect_refused(gzip + "garbage", invalid);
  expect_refused(filter_through("xz", tar) + "garbage", invalid);
  const auto zstd = filter_through("zstd -q", tar);
  expect_refused(zstd.substr(0, zstd.size() - 5), invalid);
  expect_refused(filter_through("gzip", "no tar in here"), invalid);
  expect_seeded(seed(*agent, gzip + std::string(3000, '\0')));
  EXPECT_EQ(run("ls"), "a\nb\n");
}

TEST_F(Seed, TakesZerosBehindTheEndMark) {
  const auto tar = TarBuilder().file("a", std::string(5000, 'x')).file("b", "b").finish();
  for (const std::size_t zeros : {1U, 100U, 511U, 512U, 700U, 3000U, 300'001U}) {
    SCOPED_TRACE(zeros);
    const auto longer = tar + std::string(zeros, '\0');
    expect_seeded(seed(*agent, longer));
    EXPECT_EQ(run("ls; rm a b"), "a\nb\n");
    expect_seeded(seed(*agent, filter_through("gzip", longer)));
    EXPECT_EQ(run("ls; rm a b"), "a\nb\n");
    expect_refused(longer + "g", invalid);
    expect_refused(filter_through("gzip", longer + "g"), invalid);
  }
  expect_seeded(seed(*agent, std::string(1100, '\0')));
  expect_refused(std::string(100, '\0'), invalid);
  // A member is never made up of zeros.
  const auto zeros = TarBuilder().file("z", std::string(4096, '\0')).finish();
  expect_refused(zeros.substr(0, 512 + 4000), invalid);
}

TEST_F(Seed, RefusesNamesThatLeaveTheTree) {
  const auto with = [](std::string_view name) {
    return TarBuilder().file("good", "x").file(name, "x").finish();
  };
  expect_refused(with("/etc/evil"), "Archive contains an absolute path: '/etc/evil'");
  expect_refused(with("../evil"), "Archive contains a parent-directory traversal path: '../evil'");
  expect_refused(with("a/../../evil"),
                 "Archive contains a parent-directory traversal path: 'a/../../evil'");
}

TEST_F(Seed, ABrokenSecondArchiveLeavesNothingOfTheFirst) {
  const auto done = seed(*agent, TarBuilder().file("first", "x").finish(), "broken");
  EXPECT_EQ(done.outcome, SeedOutcome::invalid_archive);
  EXPECT_EQ(done.target, SeedTarget::skills);
  EXPECT_EQ(everything(), "repo\nskills\ntmp\n");
}

TEST_F(Seed, AnArchiveWithoutMembersIsFine) {
  expect_seeded(seed(*agent, std::string(10240, '\0')));
  expect_seeded(seed(*agent, std::string(1024, '\0')));
}

TEST_F(Seed, NormalisesModesOwnersAndNames) {
  expect_seeded(seed(*agent, TarBuilder()
                                 .file("none", "x", 0)
                                 .file("odd", "x", 0610)
                                 .file("setuid", "x", 04755)
                                 .directory("dir-555/", 0555)
                                 .directory("sticky", 01777)
                                 .file("././a//b/./c", "x")
                                 .file("twice", "first")
                                 .file("twice", "second")
                                 .file("late/child", "x")
                                 .directory("late", 0700)
                                 .directory("./", 0700)
                                 .finish()));
  EXPECT_EQ(everything(),
            "repo\nskills\ntmp\n./a directory 755 1000:1000\n./a/b directory 755 1000:1000\n"
            "./a/b/c regular file 644 1000:1000\n./dir-555 directory 755 1000:1000\n./late "
            "directory 755 1000:1000\n"
            "./late/child regular file 644 1000:1000\n./none regular file 644 1000:1000\n"
            "./odd regular file 755 1000:1000\n./setuid regular file 755 1000:1000\n"
            "./sticky directory 777 1000:1000\n./twice regular file 644 1000:1000\n");
  EXPECT_EQ(run("cat twice; stat -c %a .; stat -c %Y none sticky"),
            "second755\n1600000000\n1600000000\n");
}

TEST_F(Seed, KeepsOnlyLinksThatStayInside) {
  const auto done = seed(*agent, TarBuilder()
                                     .file("file", "x")
                                     .symlink("in", "file")
                                     .symlink("dangling", "nowhere")
                                     .symlink("absolute", "/etc/passwd")
                                     .symlink("above", "../outside")
                                     .symlink("dir/up", "../file")
                                     .symlink("dir/far", "../../file")
                                     .directory("real")
                                     .symlink("alias", "real")
                                     .file("alias/through", "x")
                                     .file("early/file", "x")
                                     .symlink("early", "real")
                                     .symlink("name", "real")
                                     .file("name", "file after link")
                                     .file("last", "x")
                                     .symlink("last", "real")
                                     .finish());
  expect_seeded(done);
  EXPECT_EQ(done.message, "left out: 3 links that leave the tree, 3 members that can't be made");
  EXPECT_EQ(run("find . -mindepth 1 -printf '%p %y %l\\n' | LC_ALL=C sort"),
            "./alias l real\n./dangling l nowhere\n./dir d \n./dir/up l ../file\n./early d "
            "\n./early/file f \n"
            "./file f \n./in l file\n./last l real\n./name l real\n./real d \n");
}

TEST_F(Seed, LeavesOutOtherTypesAndKeepsLongNames) {
  const std::string component(255, 'n');
  const auto done = seed(*agent, TarBuilder()
                                     .pax('g', "comment", "0123456789")
                                     .file("file", "x")
                                     .member('1', "hard", {}, {.mode = 0644, .link = "file"})
                                     .member('6', "pipe", {}, {})
                                     .member('3', "null", {}, {})
                                     .pax('x', "path", component)
                                     .file("short", "widest")
                                     .pax('x', "path", component + "n")
                                     .file("short2", "too wide")
                                     .pax('x', "path", "é☃/日本語.txt")
                                     .file("short3", "unicode")
                                     .file("latin-\xe9", "bytes")
                                     .finish());
  expect_seeded(done);
  EXPECT_EQ(done.message, "left out: 2 devices and FIFOs, 1 hard links, 1 too long names");
  EXPECT_EQ(run("cat n* é☃/日本語.txt latin-$'\\xe9'; ls | wc -l"), "widestunicodebytes4\n");
}

TEST_F(Seed, SparseFilesStaySparse) {
  const auto tar = filter_through(
      "cat >/dev/null; d=$(mktemp -d); truncate -s 300M $d/s; echo end >> $d/s; tar -C $d -cSf - "
      "s; rm -r $d",
      "");
  expect_seeded(seed(*agent, tar));
  EXPECT_EQ(run("stat -c %s s; tail -c 4 s; test $(stat -c %b s) -lt 100 && echo sparse"),
            "314572804\nend\nsparse\n");
}

TEST_F(Seed, HoldsItsLimits) {
  const auto tar =
      TarBuilder().file("a", std::string(5000, 'x')).file("b", "b").file("c", "c").finish();
  EXPECT_EQ(seed(*agent, tar, {}, {.bytes = 5000, .entries = 10}).outcome, SeedOutcome::too_large);
  EXPECT_EQ(seed(*agent, tar, {}, {.bytes = 50000, .entries = 2}).outcome, SeedOutcome::too_large);
  EXPECT_EQ(everything(), "repo\nskills\ntmp\n");
  expect_seeded(seed(*agent, tar, {}, {.bytes = 5002, .entries = 3}));
}

TEST_F(Seed, ALongWindowIsAClearError) {
  const auto tar = TarBuilder().file("a", "x").finish();
  expect_refused(filter_through("zstd -q --long=31 -c -", tar), invalid);
}

TEST_F(Seed, ADisconnectLeavesNothing) {
  {
    auto connection = agent->connect();
    connection.send(RequestType::seed, SeedRequest{1U << 20, 10}.encode());
    connection.send(
        RequestType::seed_data,
        SeedData{SeedTarget::repo, false, TarBuilder().file("a", "x").unfinished()}.encode());
  }
  EXPECT_TRUE(eventually([&] { return agent->processes() == 0; }));
  EXPECT_EQ(everything(), "repo\nskills\ntmp\n");
}

TEST_F(Seed, AKilledSeedIsAnsweredAndCleanedUp) {
  auto connection = agent->connect();
  connection.send(RequestType::seed, SeedRequest{1U << 20, 10}.encode());
  connection.send(
      RequestType::seed_data,
      SeedData{SeedTarget::repo, false, TarBuilder().file("a", "x").unfinished()}.encode());
  ASSERT_TRUE(eventually([&] {
    return run("ls -A /workspace | grep -c daiv-seed; pkill -9 daiv-seed && echo killed")
               .find("killed") != std::string::npos;
  }));
  EXPECT_EQ(connection.receive().type, AnswerType::failed);
  EXPECT_TRUE(eventually([&] { return everything() == "repo\nskills\ntmp\n"; }));
}

TEST_F(Seed, AStoppedSeedGoesOn) {
  auto connection = agent->connect();
  const auto tar = TarBuilder().file("a", "x").finish();
  connection.send(RequestType::seed, SeedRequest{1U << 20, 10}.encode());
  ASSERT_TRUE(eventually(
      [&] { return run("pkill -STOP daiv-seed && echo stopped").ends_with("stopped\n"); }, 30s));
  send_archive(connection, SeedTarget::repo, tar);
  connection.send(RequestType::seed_end, {});
  ASSERT_TRUE(connection.wait(60s));
  expect_seeded(SeedDone::decode(connection.receive().payload));
  EXPECT_EQ(run("cat a"), "x");
}

TEST_F(Seed, FramesOutOfOrderFail) {
  auto connection = agent->connect();
  connection.send(RequestType::seed, SeedRequest{1U << 20, 10}.encode());
  connection.send(RequestType::exec, "x");
  EXPECT_EQ(connection.receive().type, AnswerType::failed);
}

}  // namespace
}  // namespace daiv::agent::test
