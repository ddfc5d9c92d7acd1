#include "agent/fs_line_window.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace daiv::agent {
namespace {

struct Row {
  std::string text;
  std::string joined;  // Python: "\n".join(text.splitlines())
  std::uint64_t lines;
};

// What Python's str.splitlines() gives.
std::vector<Row> rows() {
  return {
      {"", "", 0},
      {"a", "a", 1},
      {"a\n", "a", 1},
      {"\n", "", 1},
      {"\n\n\n", "\n\n", 3},
      {"a\r\nb\r\n", "a\nb", 2},
      {"a\rb\rc", "a\nb\nc", 3},
      {"a\n\rb\r\r\nc", "a\n\nb\n\nc", 5},
      {"a\vb\fc", "a\nb\nc", 3},
      {"a\x1C"
       "b\x1D"
       "c\x1E"
       "d\x1F"
       "e",
       "a\nb\nc\nd\x1F"
       "e",
       4},
      {"a\xC2\x85"
       "b",
       "a\nb", 2},
      {"a\xE2\x80\xA8"
       "b\xE2\x80\xA9"
       "c\n",
       "a\nb\nc", 3},
      {"\xC2\x86\xE2\x80\xAA\xE2\x82\xAC", "\xC2\x86\xE2\x80\xAA\xE2\x82\xAC", 1},
      {"twenty bytes or more of plain text\nand a second line",
       "twenty bytes or more of plain text\nand a second line", 2},
  };
}

TEST(LineWindow, CutsLinesAsPythonHoweverTheTextArrives) {
  for (const Row& row : rows()) {
    for (std::size_t piece = 1; piece <= row.text.size() + 1; ++piece) {
      LineWindow window(0, UINT64_MAX, 1000);
      for (std::size_t at = 0; at < row.text.size(); at += piece) {
        ASSERT_TRUE(window.feed(std::string_view(row.text).substr(at, piece)));
      }
      ASSERT_TRUE(window.finish());
      EXPECT_EQ(window.kept(), row.joined) << row.text << " in pieces of " << piece;
      EXPECT_EQ(window.total_lines(), row.lines) << row.text;
      EXPECT_EQ(window.window_bytes(), row.joined.size());
    }
  }
}

TEST(LineWindow, KeepsOnlyTheLinesThatWereAskedFor) {
  LineWindow window(1, 2, 1000);
  ASSERT_TRUE(window.feed("a\nb\n\nd\n"));
  ASSERT_TRUE(window.finish());
  EXPECT_EQ(window.kept(), "b\n");
  EXPECT_EQ(window.total_lines(), 4U);
}

TEST(LineWindow, CountsBeyondWhatItStores) {
  LineWindow window(0, UINT64_MAX, 4);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(window.feed("abc\n"));
  EXPECT_EQ(window.kept(), "abc\n");
  EXPECT_EQ(window.window_bytes(), 3999U);
}

TEST(LineWindow, TellsWhatIsNoUtf8) {
  for (const std::string_view text :
       {"\xFF", "a\xE9\n", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x98\n", "\x80"}) {
    for (const std::size_t piece : {std::size_t{1}, text.size()}) {
      LineWindow window(0, 10, 100);
      bool good = true;
      for (std::size_t at = 0; at < text.size(); at += piece)
        good = window.feed(text.substr(at, piece));
      EXPECT_FALSE(good && window.finish());
    }
  }
  LineWindow cut(0, 10, 100);
  ASSERT_TRUE(cut.feed("a\xE2\x98"));
  EXPECT_FALSE(cut.finish());
}

TEST(LineWindow, PassesOverZerosInNoTime) {
  constexpr std::uint64_t exbibyte = std::uint64_t{1} << 60U;
  LineWindow window(0, 1, 100);
  ASSERT_TRUE(window.feed("a"));
  ASSERT_TRUE(window.feed_zeros(exbibyte));
  ASSERT_TRUE(window.feed("\nb"));
  ASSERT_TRUE(window.finish());
  EXPECT_EQ(window.window_bytes(), exbibyte + 1);
  EXPECT_EQ(window.kept(), "a" + std::string(99, '\0'));
  EXPECT_EQ(window.total_lines(), 2U);
}

}  // namespace
}  // namespace daiv::agent
