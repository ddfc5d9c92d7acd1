#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "agent/fs_operations.hpp"
#include "fs_fixture.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::agent {
namespace {

using Read = FsTest;
using Write = FsTest;
using Edit = FsTest;
using Delete = FsTest;
using Ls = FsTest;
using Hostile = FsTest;

FsErrorCode code_of(const std::optional<FsError>& error) {
  return error ? error->code : FsErrorCode{0};
}

const std::string marker =
    "\n\n[Output truncated: exceeded the 512000-byte read limit. Continue with a larger offset or "
    "smaller limit to read "
    "the rest.]";

// ---- ls

TEST_F(Ls, ListsInByteOrderInTheSpellingThatWasAskedFor) {
  make_directory(repo("d"));
  make_file(repo("d/b"), "");
  make_file(repo("d/B"), "");
  make_file(repo("d/.h"), "");
  make_file(repo("d/\xC3\xA9\nx"), "");
  make_directory(repo("d/sub"));
  make_link(repo("d/to-sub"), "sub");
  make_link(repo("link"), "d");
  const std::string prefix = "/workspace//repo/./d";
  const LsReply reply = fs_ls(root(), {prefix});
  const std::vector<FsEntry> expected = {
      {prefix + "/.h", false}, {prefix + "/B", false},      {prefix + "/b", false},
      {prefix + "/sub", true}, {prefix + "/to-sub", false}, {prefix + "/\xC3\xA9\nx", false}};
  EXPECT_EQ(reply.entries, expected);
  EXPECT_EQ(fs_ls(root(), {repo("link/")}).entries.size(), 6U);
}

TEST_F(Ls, NamesWhatCannotBeListed) {
  make_file(repo("file"), "");
  make_directory(repo("locked"), 0);
  make_directory(repo("no-x"), 0644);
  make_directory(repo("no-r"), 0311);
  make_link(repo("dangling"), "none");
  make_link(repo("loop"), "loop");
  const auto error = [&](std::string_view name) { return *fs_ls(root(), {repo(name)}).error; };
  EXPECT_EQ(error("none"),
            (FsError{FsErrorCode::not_found, "No such directory: /workspace/repo/none"}));
  EXPECT_EQ(error("file"),
            (FsError{FsErrorCode::not_a_directory, "Not a directory: /workspace/repo/file"}));
  for (const char* name : {"file/", "file/x", "dangling", "loop", "locked/x"}) {
    EXPECT_EQ(error(name).code, FsErrorCode::not_found) << name;
  }
  EXPECT_EQ(error(std::string(256, 'x')).code, FsErrorCode::not_found);
  for (const char* name : {"locked", "no-x", "no-r"}) {
    EXPECT_EQ(error(name).code, FsErrorCode::permission_denied) << name;
  }
}

// ---- read

TEST_F(Read, GivesAWindowOfLines) {
  make_file(repo("f"), "1\n2\r\n3\n4\n");
  const ReadReply reply = fs_read(root(), {repo("f"), 1, 2});
  EXPECT_EQ(reply.content, "2\n3");
  EXPECT_EQ(reply.total_lines, 4U);
  EXPECT_EQ(reply.end_line, 3U);
  EXPECT_EQ(fs_read(root(), {repo("f"), 3, 2000}).content, "4");
  EXPECT_EQ(fs_read(root(), {repo("f"), 4, 2000}).error,
            (FsError{FsErrorCode::invalid_offset, "Line offset 4 exceeds file length (4 lines)"}));
}

TEST_F(Read, CutsAtTheCapOnACharacterAndSaysSo) {
  make_file(repo("exact"), std::string(512000, 'x'));
  EXPECT_FALSE(fs_read(root(), {repo("exact"), 0, 2000}).truncated);
  std::string wide;
  for (int i = 0; i < 256001; ++i) wide += "\xC3\xA9";
  make_file(repo("wide"), wide);
  const ReadReply reply = fs_read(root(), {repo("wide"), 0, 2000});
  EXPECT_TRUE(reply.truncated);
  EXPECT_EQ(reply.end_line, 0U);
  EXPECT_EQ(reply.content, wide.substr(0, 2 * 255938) + marker);
  std::string lines;
  for (int i = 0; i < 60000; ++i) lines += "0123456789\n";
  make_file(repo("lines"), lines);
  EXPECT_EQ(fs_read(root(), {repo("lines"), 0, 60000}).end_line, 46534U);
}

TEST_F(Read, GivesBinaryFilesWholeOrNotAtAll) {
  make_file(repo("small"), "a\xFF\n");
  const ReadReply small = fs_read(root(), {repo("small"), 5, 1});
  EXPECT_EQ(small.encoding, FsEncoding::base64);
  EXPECT_EQ(small.content, "a\xFF\n");
  EXPECT_EQ(small.total_lines, std::nullopt);
  make_file(repo("late"), std::string(400000, 'x') + "\xFF");
  EXPECT_EQ(fs_read(root(), {repo("late"), 0, 1}).content.size(), 400001U);
  make_file(repo("large"), std::string(600000, 'x') + "\xFF");
  EXPECT_EQ(fs_read(root(), {repo("large"), 0, 1}).error,
            (FsError{FsErrorCode::too_large,
                     "Binary file exceeds maximum preview size of 512000 bytes"}));
}

TEST_F(Read, TellsAnEmptyFileInWords) {
  make_file(repo("empty"), "");
  const ReadReply reply = fs_read(root(), {repo("empty"), 7, 1});
  EXPECT_EQ(reply.content, "System reminder: File exists but has empty contents");
  EXPECT_EQ(reply.total_lines, std::nullopt);
}

TEST_F(Read, NamesWhatCannotBeRead) {
  make_directory(repo("d"), 0);
  make_file(repo("secret"), "x", 0);
  make_file(repo("file"), "x");
  make_link(repo("loop"), "loop");
  make_link(repo("dangling"), "none");
  const auto error = [&](std::string_view name) {
    return *fs_read(root(), {repo(name), 0, 1}).error;
  };
  EXPECT_EQ(error("d").message, "Is a directory: /workspace/repo/d (use fs/ls to list it)");
  EXPECT_EQ(error("secret"),
            (FsError{FsErrorCode::permission_denied, "Permission denied: /workspace/repo/secret"}));
  EXPECT_EQ(error("none").message, "No such file: /workspace/repo/none");
  for (const char* name : {"loop", "dangling", "file/", "file/x"}) {
    EXPECT_EQ(error(name).code, FsErrorCode::not_found) << name;
  }
  EXPECT_EQ(error(std::string(300, 'n')).code, FsErrorCode::not_found);
}

TEST_F(Read, FollowsLinks) {
  make_file(repo("f"), "x\n");
  make_link(repo("link"), "f");
  EXPECT_EQ(fs_read(root(), {repo("link"), 0, 1}).content, "x");
}

TEST_F(Read, AHugeSparseFileTakesNoTime) {
  make_file(repo("sparse"), "first\n");
  os::check(::truncate(host(repo("sparse")).c_str(), off_t{1} << 40), "truncate", "sparse");
  const ReadReply reply = fs_read(root(), {repo("sparse"), 0, 1});
  EXPECT_EQ(reply.content, "first");
  EXPECT_EQ(reply.total_lines, 2U);
}

// Appends lines of 16 bytes until it is destroyed, or some 100 MiB.
class Appender {
public:
  explicit Appender(const std::string& path)
      : thread_([this, path](const std::stop_token& stop) {
          const os::UniqueFd fd = os::open_file(path, O_WRONLY | O_APPEND);
          std::string piece;
          for (int i = 0; i < 256; ++i) piece += "123456789012345\n";
          for (int i = 0; i < 25'000 && !stop.stop_requested(); ++i) {
            os::write_full(fd, piece);
            started_ = true;
          }
        }) {
    while (!started_) std::this_thread::yield();
  }

private:
  std::atomic<bool> started_ = false;
  std::jthread thread_;
};

TEST_F(Read, AFileThatGrowsEndsWhereItDidAtTheStart) {
  const auto lines_now = [&] {
    return static_cast<std::uint64_t>(status(repo("log")).st_size) / 16;
  };
  std::string text;
  for (int i = 0; i < 1 << 17; ++i) text += "123456789012345\n";
  bool has_ended_early = false;
  // A reader that follows the growing end meets it where the file has grown to, in every round.
  for (int round = 0; round < 50 && !has_ended_early; ++round) {
    make_file(repo("log"), text);
    const Appender appender(host(repo("log")));
    const std::uint64_t before = lines_now();
    const ReadReply reply = fs_read(root(), {repo("log"), 0, 1});
    const std::uint64_t after = lines_now();
    ASSERT_EQ(reply.error, std::nullopt);
    EXPECT_EQ(reply.content, "123456789012345");
    ASSERT_GE(reply.total_lines.value_or(0), before);
    ASSERT_LE(reply.total_lines.value_or(0), after);
    const std::uint64_t grown = after - before;
    has_ended_early = grown > 1000 && *reply.total_lines - before < grown / 4;
  }
  EXPECT_TRUE(has_ended_early);
}

// ---- write

TEST_F(Write, MakesAFileAndItsParents) {
  EXPECT_EQ(fs_write(root(), {repo("a//b/./c/"), std::string("x\0\xFF", 3), 0600}).error,
            std::nullopt);
  EXPECT_EQ(content(repo("a/b/c")), std::string("x\0\xFF", 3));
  EXPECT_EQ(status(repo("a/b")).st_mode & 07777U, 0755U);
  EXPECT_EQ(status(repo("a/b/c")).st_mode & 07777U, 0644U);
  EXPECT_LT(::time(nullptr) - status(repo("a/b/c")).st_mtime, 10);
  EXPECT_EQ(fs_ls(root(), {repo("a/b")}).entries.size(), 1U);  // nothing else is left
}

TEST_F(Write, NormalisesModes) {
  const std::vector<std::pair<std::uint32_t, mode_t>> rows = {
      {0644, 0644}, {0755, 0755}, {0600, 0644}, {0700, 0755},  {0444, 0644},  {0555, 0755},
      {0666, 0666}, {0777, 0777}, {0, 0644},    {04755, 0755}, {02644, 0644}, {01777, 0777}};
  for (const auto& [asked, given] : rows) {
    const std::string path = repo("m" + std::to_string(asked));
    ASSERT_EQ(fs_write(root(), {path, "x", asked}).error, std::nullopt);
    EXPECT_EQ(status(path).st_mode & 07777U, given) << asked;
  }
}

TEST_F(Write, NeverReplacesAnything) {
  make_file(repo("file"), "old");
  make_directory(repo("dir"));
  make_link(repo("dangling"), "none");
  make_link(repo("loop"), "loop");
  os::check(::mkfifo(host(repo("pipe")).c_str(), 0644), "mkfifo", "pipe");
  for (const char* name : {"file", "dir", "dir/", "dangling", "loop", "pipe"}) {
    EXPECT_EQ(fs_write(root(), {repo(name), "new", 0644}).error,
              (FsError{FsErrorCode::already_exists, "Cannot write to " + repo(name) +
                                                        " because it already exists. Read and then "
                                                        "make an edit, or write to a new path."}));
  }
  EXPECT_EQ(content(repo("file")), "old");
  EXPECT_TRUE(S_ISLNK(status(repo("dangling")).st_mode));
}

TEST_F(Write, NamesWhatCannotBeWritten) {
  make_file(repo("f"), "x");
  make_directory(repo("ro"), 0555);
  EXPECT_EQ(code_of(fs_write(root(), {repo("f/x/y"), "", 0644}).error), FsErrorCode::exec_failed);
  EXPECT_EQ(code_of(fs_write(root(), {repo("ro/x"), "", 0644}).error),
            FsErrorCode::permission_denied);
  EXPECT_EQ(code_of(fs_write(root(), {repo("ro/d/x"), "", 0644}).error),
            FsErrorCode::permission_denied);
  EXPECT_EQ(code_of(fs_write(root(), {repo(std::string(256, 'x')), "", 0644}).error),
            FsErrorCode::exec_failed);
  EXPECT_EQ(fs_write(root(), {repo(std::string(255, 'x')), "", 0644}).error, std::nullopt);
}

TEST_F(Write, OfTwoAtOnceOneWins) {
  for (int round = 0; round < 50; ++round) {
    const std::string path = repo("r" + std::to_string(round));
    std::atomic<int> made = 0;
    {
      std::vector<std::jthread> writers;
      for (int i = 0; i < 4; ++i) {
        writers.emplace_back([&, i] {
          const std::string text(50000, static_cast<char>('a' + i));
          if (!fs_write(root(), {path, text, 0644}).error) ++made;
        });
      }
    }
    EXPECT_EQ(made, 1);
    EXPECT_EQ(content(path), std::string(50000, content(path).front()));
  }
}

// ---- edit

TEST_F(Edit, KeepsModeAndGivesANewTime) {
  make_file(repo("f"), "one", 0751);
  const timespec old[2] = {{1, 0}, {1, 0}};
  ::utimensat(AT_FDCWD, host(repo("f")).c_str(), old, 0);
  EXPECT_EQ(fs_edit(root(), {repo("f"), "one", "two", Replace::only_one}).occurrences, 1U);
  EXPECT_EQ(content(repo("f")), "two");
  EXPECT_EQ(status(repo("f")).st_mode & 07777U, 0751U);
  EXPECT_GT(status(repo("f")).st_mtime, 1000);
  EXPECT_EQ(fs_ls(root(), {"/workspace/repo"}).entries.size(), 1U);
}

TEST_F(Edit, KeepsLinks) {
  make_directory(repo("d"));
  make_file(repo("d/f"), "one");
  make_link(repo("d/next"), "f");
  make_link(repo("link"), "d/next");
  EXPECT_EQ(fs_edit(root(), {repo("link"), "one", "two", Replace::only_one}).error, std::nullopt);
  EXPECT_TRUE(S_ISLNK(status(repo("link")).st_mode));
  EXPECT_EQ(content(repo("d/f")), "two");
  os::check(::link(host(repo("d/f")).c_str(), host(repo("hard")).c_str()), "link", "hard");
  EXPECT_EQ(fs_edit(root(), {repo("hard"), "two", "three", Replace::only_one}).error, std::nullopt);
  EXPECT_EQ(content(repo("d/f")), "three");
  EXPECT_EQ(status(repo("hard")).st_ino, status(repo("d/f")).st_ino);
}

TEST_F(Edit, InPlaceWritesOnlyWhatChanges) {
  const off_t begin = 1 << 20;
  make_file(repo("f"), "");
  os::check(::truncate(host(repo("f")).c_str(), begin), "truncate", "f");
  os::write_full(os::open_file(host(repo("f")), O_WRONLY | O_APPEND), "one two");
  os::check(::link(host(repo("f")).c_str(), host(repo("hard")).c_str()), "link", "hard");
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"one", "ONE"}, {"two", "three"}, {"ONE three", "1"}, {"1", "1"}, {"1", ""}};
  for (const auto& [old_text, new_text] : edits) {
    EXPECT_EQ(fs_edit(root(), {repo("f"), old_text, new_text, Replace::only_one}).error,
              std::nullopt);
    std::string expected(static_cast<std::size_t>(begin), '\0');
    EXPECT_TRUE(content(repo("hard")) == expected.append(new_text == "ONE"     ? "ONE two"
                                                         : new_text == "three" ? "ONE three"
                                                                               : new_text))
        << new_text;
    // The hole before it was not written.
    EXPECT_LT(status(repo("f")).st_blocks * 512, begin / 2);
  }
}

TEST_F(Edit, WritesInPlaceWhereTheFolderIsClosed) {
  make_directory(repo("ro"));
  make_file(repo("ro/f"), "a long text");
  os::check(::chmod(host(repo("ro")).c_str(), 0555), "chmod", "ro");
  EXPECT_EQ(fs_edit(root(), {repo("ro/f"), "a long ", "", Replace::only_one}).error, std::nullopt);
  EXPECT_EQ(content(repo("ro/f")), "text");
}

TEST_F(Edit, NamesWhatCannotBeEdited) {
  make_directory(repo("d"));
  make_file(repo("bin"), "caf\xE9");
  make_file(repo("ro"), "x", 0444);
  make_file(repo("f"), "x");
  const auto error = [&](std::string_view name) {
    return *fs_edit(root(), {repo(name), "x", "y", Replace::only_one}).error;
  };
  EXPECT_EQ(error("d"),
            (FsError{FsErrorCode::is_a_directory, "Is a directory: /workspace/repo/d"}));
  EXPECT_EQ(error("bin"),
            (FsError{FsErrorCode::not_a_text_file, "Not a text file: /workspace/repo/bin"}));
  EXPECT_EQ(error("ro").code, FsErrorCode::permission_denied);
  EXPECT_EQ(error("none"), (FsError{FsErrorCode::not_found, "No such file: /workspace/repo/none"}));
  EXPECT_EQ(error("f/").code, FsErrorCode::not_found);
  os::check(::truncate(host(repo("f")).c_str(), off_t{1} << 40), "truncate", "f");
  EXPECT_EQ(error("f").code, FsErrorCode::too_large);
}

TEST_F(Edit, AReaderSeesTheOldOrTheNewText) {
  const std::string a(200000, 'a');
  const std::string b(200000, 'b');
  make_file(repo("f"), a);
  std::atomic<bool> stop = false;
  std::jthread reader([&] {
    while (!stop) {
      const std::string seen = content(repo("f"));
      EXPECT_TRUE(seen == a || seen == b);
    }
  });
  for (int i = 0; i < 50; ++i) {
    const EditRequest request{repo("f"), i % 2 == 0 ? a : b, i % 2 == 0 ? b : a, Replace::only_one};
    EXPECT_EQ(fs_edit(root(), request).error, std::nullopt);
  }
  stop = true;
}

// ---- delete

TEST_F(Delete, RemovesFilesAndLinksAgainAndAgain) {
  make_file(repo("f"), "x", 0);
  make_link(repo("link"), "f");
  make_link(repo("dangling"), "none");
  make_link(repo("loop"), "loop");
  os::check(::mkfifo(host(repo("pipe")).c_str(), 0), "mkfifo", "pipe");
  for (const char* name : {"link", "dangling", "loop", "pipe", "f"}) {
    EXPECT_EQ(fs_delete(root(), {repo(name)}), (DeleteReply{true, std::nullopt})) << name;
    EXPECT_FALSE(exists(repo(name)));
    EXPECT_EQ(fs_delete(root(), {repo(name)}), (DeleteReply{false, std::nullopt})) << name;
  }
  EXPECT_EQ(fs_delete(root(), {repo("none/deeper")}), (DeleteReply{false, std::nullopt}));
}

TEST_F(Delete, NeverRemovesAFolder) {
  make_directory(repo("d"));
  make_link(repo("to-d"), "d");
  for (const char* name : {"d", "d/", "to-d"}) {
    EXPECT_EQ(fs_delete(root(), {repo(name)}).error,
              (FsError{FsErrorCode::is_a_directory, "Is a directory: " + repo(name)}));
  }
  EXPECT_TRUE(exists(repo("to-d")));
}

TEST_F(Delete, NeedsTheRightsOfTheFolder) {
  make_directory(repo("ro"));
  make_file(repo("ro/f"), "x");
  os::check(::chmod(host(repo("ro")).c_str(), 0555), "chmod", "ro");
  EXPECT_EQ(code_of(fs_delete(root(), {repo("ro/f")}).error), FsErrorCode::exec_failed);
  EXPECT_TRUE(exists(repo("ro/f")));
}

TEST_F(Delete, DoesNotSayThatAFileIsAbsentWhereItCannotLook) {
  make_directory(repo("d"));
  make_file(repo("d/f"), "x");
  make_directory(repo("d/sub"));
  os::check(::chmod(host(repo("d")).c_str(), 0600), "chmod", "d");
  const std::string file = repo("d/f");
  for (const char* name : {"d/f", "d/none", "d/sub/none"}) {
    EXPECT_EQ(fs_delete(root(), {repo(name)}).error,
              (FsError{FsErrorCode::permission_denied, "Permission denied: " + repo(name)}));
  }
  EXPECT_EQ(code_of(fs_read(root(), {file, 0, 1}).error), FsErrorCode::permission_denied);
  EXPECT_EQ(code_of(fs_edit(root(), {file, "x", "y", Replace::all}).error),
            FsErrorCode::permission_denied);
  EXPECT_EQ(code_of(fs_write(root(), {file, "x", 0644}).error), FsErrorCode::permission_denied);
  os::check(::chmod(host(repo("d")).c_str(), 0700), "chmod", "d");
  EXPECT_EQ(content(file), "x");
}

// ---- what must never hang

TEST_F(Hostile, WhatIsNoFileIsNoneAtOnce) {
  os::check(::mkfifo(host(repo("pipe")).c_str(), 0644), "mkfifo", "pipe");
  make_link(repo("zero"), "/dev/zero");
  make_link(repo("tty"), "/dev/tty");
  const os::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  host(repo("socket")).copy(address.sun_path, sizeof address.sun_path - 1);
  os::check(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "bind",
            "socket");
  const auto begin = std::chrono::steady_clock::now();
  for (const char* name : {"pipe", "zero", "tty", "socket"}) {
    EXPECT_EQ(code_of(fs_read(root(), {repo(name), 0, 1}).error), FsErrorCode::not_found) << name;
    EXPECT_EQ(code_of(fs_edit(root(), {repo(name), "a", "b", Replace::all}).error),
              FsErrorCode::not_found)
        << name;
    EXPECT_EQ(fs_grep(root(), {repo(name), "x", std::nullopt, {}}, {}).error, std::nullopt) << name;
    EXPECT_EQ(code_of(fs_ls(root(), {repo(name)}).error), FsErrorCode::not_a_directory) << name;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

// Swaps the directory `d` for a link to `target` and back until it is destroyed.
class Swapper {
public:
  Swapper(const std::string& d, const std::string& away, const std::string& target)
      : thread_([=, this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            ::rename(d.c_str(), away.c_str());
            if (::symlink(target.c_str(), d.c_str()) != 0) continue;
            ++swaps_;
            ::unlink(d.c_str());
            ::rename(away.c_str(), d.c_str());
          }
        }) {
    while (swaps_ == 0) std::this_thread::yield();
  }

private:
  std::atomic<int> swaps_ = 0;
  std::jthread thread_;
};

TEST_F(Hostile, ADirectoryThatIsSwappedForALinkIsNoWayToWhatTheUserMayNotReach) {
  make_directory(repo("d"));
  make_file(repo("d/f"), "needle\n");
  make_directory("/outside");
  make_file("/outside/f", "secret needle\n", 0);
  make_file("/outside/only-there", "needle\n");
  os::check(::chmod(host("/outside").c_str(), 0555), "chmod", "outside");
  {
    const Swapper swapper(host(repo("d")), host(repo("away")), host("/outside"));
    for (int i = 0; i < 150; ++i) {
      const GrepReply found = fs_grep(root(), {"/workspace/repo", "needle", std::nullopt, {}}, {});
      for (const GrepMatch& match : found.matches) {
        EXPECT_EQ(match.text, "needle");
        EXPECT_NE(match.path, repo("d/only-there"));  // a link is not walked through
      }
      for (const FsEntry& entry : fs_glob(root(), {"/workspace/repo", "**", {}}, {}).matches)
        EXPECT_NE(entry.path, repo("d/only-there"));
      const ReadReply reply = fs_read(root(), {repo("d/f"), 0, 1});
      EXPECT_TRUE(reply.error || reply.content == "needle") << reply.content;
      const EditReply edited = fs_edit(root(), {repo("d/f"), "needle", "needle", Replace::all});
      EXPECT_TRUE(edited.error || edited.occurrences == 1U);
      const std::string fresh = repo("d/new" + std::to_string(i));
      fs_write(root(), {fresh, "x", 0644});
      fs_delete(root(), {fresh});
      fs_delete(root(), {repo("d/only-there")});
    }
  }
  const auto outside = fs_ls(root(), {"/outside"}).entries;
  EXPECT_EQ(outside, (std::vector<FsEntry>{{"/outside/f", false}, {"/outside/only-there", false}}));
  EXPECT_EQ(content("/outside/only-there"), "needle\n");
  os::check(::chmod(host("/outside/f").c_str(), 0400), "chmod", "f");
  EXPECT_EQ(content("/outside/f"), "secret needle\n");
}

}  // namespace
}  // namespace daiv::agent
