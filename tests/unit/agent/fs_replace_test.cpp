#include "agent/fs_replace.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace daiv::agent {
namespace {

constexpr std::size_t roomy = 1U << 20;

TEST(ReplaceText, ReplacesWhatOccurs) {
  struct Row {
    std::string text, wanted, given;
    Replace replace;
    std::string result;
    std::uint64_t count;
  };
  const std::vector<Row> rows = {
      {"one two three", "two", "TWO", Replace::only_one, "one TWO three", 1},
      {"a b a", "a", "x", Replace::all, "x b x", 2},
      {"aaaa", "aa", "b", Replace::all, "bb", 2},
      {"abc", "abc", "", Replace::only_one, "", 1},
      {"a\r\nb\r\nc\r\n", "a\nb", "x\ny", Replace::only_one, "x\r\ny\r\nc\r\n", 1},
      {"a\nb\nc\n", "a\r\nb", "x\r\ny", Replace::only_one, "x\ny\nc\n", 1},
      {"a\r\nb", "a\r\nb", "x\ny", Replace::only_one, "x\ny", 1},
      {"a\r\nb\r\n", "b\n", "c\r\nd\n", Replace::only_one, "a\r\nc\r\nd\r\n", 1},
      {"", "", "new", Replace::only_one, "new", 1},
      {"\xC3\xA9\xE2\x98\x83", "", "x", Replace::all, "x\xC3\xA9x\xE2\x98\x83x", 3},
      {"x\ny x", "x\n", "z\n", Replace::only_one, "z\ny x", 1},
  };
  for (const Row& row : rows) {
    const auto result = replace_text(row.text, row.wanted, row.given, row.replace, roomy);
    ASSERT_TRUE(result) << row.text;
    EXPECT_EQ(result->text, row.result);
    EXPECT_EQ(result->occurrences, row.count);
  }
}

TEST(ReplaceText, SaysWhyNot) {
  const std::string eof =
      "old_string ends with a newline, but the file does not end with a newline. ";
  const std::string once =
      "Retry with the trailing newline removed from old_string (and from new_string if it also "
      "ends with a newline).";
  const std::string twice =
      "With the trailing newline removed, old_string would appear 2 times in the file. Retry with "
      "the trailing newline "
      "removed and add surrounding context so the match is unique.";
  const std::string many =
      " times in file. Use replace_all=True to replace all instances, or provide a more specific "
      "string with "
      "surrounding context.";
  struct Row {
    std::string text, wanted;
    FsErrorCode code;
    std::string message;
  };
  const std::vector<Row> rows = {
      {"abc", "B", FsErrorCode::string_not_found, "string_not_found"},
      {"", "x", FsErrorCode::string_not_found, "string_not_found"},
      {"a\r\nb\nc", "a\nb\nc", FsErrorCode::string_not_found, "string_not_found"},
      {"a b a", "a", FsErrorCode::multiple_occurrences, "String appears 2" + many},
      {"abc", "", FsErrorCode::multiple_occurrences, "String appears 4" + many},
      {"a\nb", "b\n", FsErrorCode::string_not_found, eof + once},
      {"a\r\nb", "a\nb\n", FsErrorCode::string_not_found, eof + once},
      {"end end", "end\n", FsErrorCode::string_not_found, eof + twice},
      {"b a", "b\n", FsErrorCode::string_not_found, "string_not_found"},
      {"x", "x\n\n", FsErrorCode::string_not_found, "string_not_found"},
      {"ab", "\n", FsErrorCode::string_not_found, "string_not_found"},
  };
  for (const Row& row : rows) {
    const auto result = replace_text(row.text, row.wanted, "y", Replace::only_one, roomy);
    ASSERT_FALSE(result) << row.text;
    EXPECT_EQ(result.error(), (FsError{row.code, row.message})) << row.text;
  }
}

TEST(ReplaceText, RefusesAResultAboveTheLimitBeforeItIsMade) {
  const std::string text(1000, 'a');
  const std::string huge(1U << 20, 'b');
  const auto result = replace_text(text, "a", huge, Replace::all, roomy);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, FsErrorCode::too_large);
}

}  // namespace
}  // namespace daiv::agent
