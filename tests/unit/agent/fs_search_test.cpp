#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "agent/fs_operations.hpp"
#include "fs_fixture.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

const PruneList pruned = {".git", "target", "*.egg-info"};

class Grep : public FsTest {
protected:
  GrepReply grep(std::string_view pattern, std::optional<std::string> glob = std::nullopt,
                 std::vector<std::string> exclude = {}) {
    return fs_grep(root(),
                   {"/workspace/repo", std::string(pattern), std::move(glob), std::move(exclude)},
                   pruned);
  }
};

class Glob : public FsTest {
protected:
  void SetUp() override {
    FsTest::SetUp();
    for (const char* name :
         {"src", "src/app", "src/app/deep", ".hidden", ".git", "target", "a.egg-info"}) {
      make_directory(repo(name));
    }
    for (const char* name : {"a.py", "src.txt", "src/c.py", "src/app/d.py", "src/app/deep/e.py",
                             ".hidden/f.py", ".git/config", "target/t.py", "a.egg-info/PKG"}) {
      make_file(repo(name), "");
    }
    make_link(repo("link"), "src");
  }

  // The paths below /workspace/repo, folders with a slash at the end.
  std::vector<std::string> glob(std::string_view pattern, std::vector<std::string> exclude = {}) {
    const GlobReply reply =
        fs_glob(root(), {"/workspace/repo", std::string(pattern), std::move(exclude)}, pruned);
    EXPECT_EQ(reply.error, std::nullopt);
    std::vector<std::string> paths;
    for (const FsEntry& entry : reply.matches) {
      paths.push_back(entry.path.substr(repo("").size()) + (entry.is_dir ? "/" : ""));
    }
    return paths;
  }
};

using Names = std::vector<std::string>;

TEST_F(Glob, MatchesPathsBelowTheFolder) {
  EXPECT_EQ(glob("*"), (Names{".hidden/", "a.py", "link", "src/", "src.txt"}));
  EXPECT_EQ(glob("**/*.py"),
            (Names{".hidden/f.py", "a.py", "src/app/d.py", "src/app/deep/e.py", "src/c.py"}));
  EXPECT_EQ(glob("src/**"),
            (Names{"src/app/", "src/app/d.py", "src/app/deep/", "src/app/deep/e.py", "src/c.py"}));
  EXPECT_EQ(glob("src/**/*.py"), (Names{"src/app/d.py", "src/app/deep/e.py", "src/c.py"}));
  EXPECT_EQ(glob("**/deep/*"), (Names{"src/app/deep/e.py"}));
  EXPECT_EQ(glob("**/**/e.py"), (Names{"src/app/deep/e.py"}));
  EXPECT_EQ(glob("s*/a*/d*"), (Names{"src/app/d.py", "src/app/deep/"}));
  EXPECT_EQ(glob("**.py"), (Names{"a.py"}));
  EXPECT_EQ(glob(".*"), (Names{".hidden/"}));
  for (const char* pattern :
       {"", "/a.py", "./a.py", "src/", "**/", "src//c.py", "link/*", ".git/*", "*.PY"}) {
    EXPECT_EQ(glob(pattern), Names{}) << pattern;
  }
}

TEST_F(Glob, SortsByTheBytesOfTheWholePath) {
  const Names all = glob("**");
  GlobReply reply = fs_glob(root(), {"/workspace/repo", "**", {}}, {});
  EXPECT_TRUE(std::ranges::is_sorted(reply.matches, {}, &FsEntry::path));
  EXPECT_LT(std::ranges::find(all, "src.txt"), std::ranges::find(all, "src/c.py"));
}

TEST_F(Glob, LeavesOutWhatIsPrunedButNotTheFolderAskedFor) {
  EXPECT_EQ(glob("**/*.py", {"src", "a.py", ".h*"}), (Names{"a.py"}));
  const GlobReply reply = fs_glob(root(), {repo("target"), "*", {}}, pruned);
  ASSERT_EQ(reply.matches.size(), 1U);
  EXPECT_EQ(reply.matches[0].path, repo("target/t.py"));
}

TEST_F(Glob, NamesWhatCannotBeSearchedAndPassesOverLockedFolders) {
  make_directory(repo("locked"), 0);
  make_link(repo("dangling"), "none");
  const auto code = [&](std::string_view name) {
    return fs_glob(root(), {repo(name), "*", {}}, pruned).error->code;
  };
  EXPECT_EQ(code("none"), FsErrorCode::not_found);
  EXPECT_EQ(code("dangling"), FsErrorCode::not_found);
  EXPECT_EQ(code("a.py/"), FsErrorCode::not_found);
  EXPECT_EQ(code("a.py"), FsErrorCode::not_a_directory);
  EXPECT_EQ(code("locked"), FsErrorCode::permission_denied);
  EXPECT_EQ(glob("l*"), (Names{"link", "locked/"}));
  EXPECT_EQ(glob("**/d.py"), (Names{"src/app/d.py"}));
  EXPECT_TRUE(fs_glob(root(), {repo("link"), "**", {}}, pruned).matches.empty());
  EXPECT_EQ(fs_glob(root(), {repo("link/"), "*", {}}, pruned).matches.size(), 2U);
}

TEST_F(Grep, FindsLinesBelowTheFolder) {
  for (const char* name : {"src", ".hidden", ".git", "target"}) make_directory(repo(name));
  make_file(repo("a.txt"), "alpha\nneedle one\r\nbeta\n");
  make_file(repo("src/b.py"), "x = needle\n\ny # needle");
  make_file(repo(".hidden/h"), "needle\n");
  make_file(repo(".git/config"), "needle\n");
  make_file(repo("target/t"), "needle\n");
  make_link(repo("link"), "a.txt");
  make_link(repo("linkdir"), "src");
  const std::vector<GrepMatch> expected = {{repo("a.txt"), 2, "needle one"},
                                           {repo(".hidden/h"), 1, "needle"},
                                           {repo("src/b.py"), 1, "x = needle"},
                                           {repo("src/b.py"), 3, "y # needle"}};
  EXPECT_EQ(grep("needle").matches, expected);
  EXPECT_EQ(grep("needle", "*.py").matches.size(), 2U);
  EXPECT_EQ(grep("needle", "").matches.size(), 0U);
  EXPECT_EQ(grep("needle", std::nullopt, {"src", ".h*"}).matches.size(), 1U);
  EXPECT_EQ(grep("one$").matches.size(), 0U);  // the CR is part of the line
  EXPECT_EQ(fs_grep(root(), {repo("link"), "one", std::nullopt, {}}, pruned).matches.at(0).path,
            repo("link"));
  EXPECT_TRUE(
      fs_grep(root(), {repo("linkdir"), "needle", std::nullopt, {}}, pruned).matches.empty());
}

TEST_F(Grep, GivesTheSameFirstMatchesEachTime) {
  make_directory(repo("d"));
  for (int i = 0; i < 300; ++i) make_file(repo("d/f" + std::to_string(1000 + i)), "x1\nx2\nx3\n");
  const GrepReply first = grep("x");
  EXPECT_TRUE(first.truncated);
  ASSERT_EQ(first.matches.size(), 200U);
  EXPECT_EQ(first.matches[199], (GrepMatch{repo("d/f1066"), 2, "x2"}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(grep("x"), first);
}

TEST_F(Grep, TruncatesAboveTwoHundredOnly) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "x\n";
  make_file(repo("f"), lines);
  EXPECT_FALSE(grep("x").truncated);
  make_file(repo("f"), lines + "x");
  EXPECT_TRUE(grep("x").truncated);
  EXPECT_EQ(grep("x").matches.size(), 200U);
}

TEST_F(Grep, ABinaryFileGivesNoLinesAndHidesNoOther) {
  make_file(repo("bin"), std::string("needle\n\0needle\n", 15));
  make_file(repo("text"), "needle\n");
  make_file(repo("late"), "needle\n" + std::string(300000, 'x') + std::string("\n\0needle\n", 9));
  const std::vector<GrepMatch> expected = {{repo("late"), 1, "needle"},
                                           {repo("text"), 1, "needle"}};
  EXPECT_EQ(grep("needle").matches, expected);
  EXPECT_EQ(grep("needle").error, std::nullopt);
}

TEST_F(Grep, NumbersLinesOverPiecesOfAFile) {
  std::string text;
  for (int i = 1; i <= 100000; ++i) text += "line " + std::to_string(i) + "\n";
  make_file(repo("f"), text + "line 1000000");
  const std::vector<GrepMatch> expected = {{repo("f"), 77777, "line 77777"}};
  EXPECT_EQ(grep("line 77777$").matches, expected);
  EXPECT_EQ(grep("^line 7{5}$").matches, expected);
  EXPECT_EQ(grep("[ ]77777$").matches, expected);
  EXPECT_EQ(grep("000000").matches.at(0).line, 100001U);
}

TEST_F(Grep, FindsLongLinesAndCutsNamesNowhere) {
  make_file(repo("a:1:b\nc"), std::string(1U << 20, 'x') + "needle\n" + "a\fb\xC2\x85needle\n");
  const GrepReply reply = grep("needle");
  ASSERT_EQ(reply.matches.size(), 2U);
  EXPECT_EQ(reply.matches[0].path, repo("a:1:b\nc"));
  EXPECT_EQ(reply.matches[0].text.size(), 256U << 10);
  EXPECT_EQ(reply.matches[1], (GrepMatch{repo("a:1:b\nc"), 2, "a\fb\xC2\x85needle"}));
}

TEST_F(Grep, AFileWithAHugeLineHidesNoOther) {
  const std::string huge = "needle 1\n" + std::string(17U << 20, 'x') + "\nneedle 3\n";
  make_file(repo("a"), "needle\n");
  make_file(repo("b.bundle"), huge);
  make_file(repo("c"), "needle\n");
  const std::vector<GrepMatch> expected = {
      {repo("a"), 1, "needle"}, {repo("b.bundle"), 1, "needle 1"}, {repo("c"), 1, "needle"}};
  const GrepReply reply = grep("needle");
  EXPECT_EQ(reply.error, std::nullopt);
  EXPECT_EQ(reply.matches, expected);
  EXPECT_TRUE(reply.truncated);
  EXPECT_FALSE(grep("needle", "[ac]").truncated);
  const auto alone = fs_grep(root(), {repo("b.bundle"), "needle", std::nullopt, {}}, pruned);
  EXPECT_EQ(alone.error ? alone.error->code : FsErrorCode{0}, FsErrorCode::exec_failed);
}

// Directories whose path is longer than the kernel takes, which nothing but their own descriptors
// reaches.
class DeepTree {
public:
  explicit DeepTree(const std::string& base) {
    directories_.push_back(os::open_file(base, O_RDONLY | O_DIRECTORY));
    for (int depth = 0; depth < 30; ++depth) {
      const os::UniqueFd& last = directories_.back();
      os::check(::mkdirat(last.get(), name_.c_str(), 0755), "mkdirat", name_);
      directories_.push_back(os::open_at(last, name_, O_RDONLY | O_DIRECTORY));
    }
  }
  DeepTree(const DeepTree&) = delete;
  DeepTree& operator=(const DeepTree&) = delete;
  ~DeepTree() {
    for (directories_.pop_back(); !directories_.empty(); directories_.pop_back())
      ::unlinkat(directories_.back().get(), name_.c_str(), AT_REMOVEDIR);
  }

private:
  std::string name_ = std::string(200, 'd');
  std::vector<os::UniqueFd> directories_;
};

TEST_F(Grep, SaysThatATreeIsTooDeep) {
  make_file(repo("f"), "needle\n");
  EXPECT_FALSE(grep("needle").truncated);
  const DeepTree deep(host("/workspace/repo"));
  const GrepReply reply = grep("needle");
  EXPECT_EQ(reply.error, std::nullopt);
  EXPECT_EQ(reply.matches.size(), 1U);
  EXPECT_TRUE(reply.truncated);
  const GlobReply names = fs_glob(root(), {"/workspace/repo", "**", {}}, {});
  EXPECT_EQ(names.error, std::nullopt);
  EXPECT_GT(names.matches.size(), 20U);
}

TEST_F(Grep, AnUnreadableFileFailsTheSearchAnUnreadableFolderDoesNot) {
  make_directory(repo("locked"), 0);
  make_file(repo("ok"), "x\n");
  EXPECT_EQ(grep("x").matches.size(), 1U);
  make_file(repo("secret"), "x\n", 0);
  const GrepReply reply = grep("x");
  EXPECT_TRUE(reply.matches.empty());
  EXPECT_EQ(reply.error->code, FsErrorCode::exec_failed);
  EXPECT_EQ(grep("x", "ok").error, std::nullopt);
  const auto code = [&](std::string_view name) {
    return fs_grep(root(), {repo(name), "x", std::nullopt, {}}, pruned).error->code;
  };
  EXPECT_EQ(code("secret"), FsErrorCode::permission_denied);
  EXPECT_EQ(code("locked"), FsErrorCode::permission_denied);
  EXPECT_EQ(code("ok/"), FsErrorCode::not_found);
}

TEST_F(Grep, NamesMeaninglessExpressionsAfterMissingPaths) {
  make_file(repo("f"), "x");
  EXPECT_EQ(grep("(it's").error,
            (FsError{FsErrorCode::invalid_pattern, "invalid regular expression: \"(it's\""}));
  EXPECT_EQ(fs_grep(root(), {repo("none"), "(", std::nullopt, {}}, pruned).error,
            (FsError{FsErrorCode::not_found, "No such path: /workspace/repo/none"}));
}

TEST_F(Grep, PassesOverPipesAndEndsInTime) {
  os::check(::mkfifo(host(repo("pipe")).c_str(), 0644), "mkfifo", "pipe");
  make_file(repo("f"), std::string(200000, 'a') + "b\nneedle\n");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(grep("needle").matches.size(), 1U);
  // Too much for every way of matching: said, not waited for.
  const GrepReply reply = grep("(a+)+\\1$");
  EXPECT_EQ(reply.error ? reply.error->code : FsErrorCode{0}, FsErrorCode::exec_failed);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace daiv::agent
