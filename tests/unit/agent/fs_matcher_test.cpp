#include "agent/fs_matcher.hpp"

#include <gtest/gtest.h>
#include <stdio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

namespace daiv::agent {
namespace {

// The numbers (from 0) of the lines of `text` that match.
std::vector<int> matching_lines(std::string_view pattern, std::string_view text) {
  const auto compiled = CompiledPattern::compile(pattern);
  if (!compiled) return {-1};
  LineMatcher matcher(*compiled);
  std::vector<int> numbers;
  Line line;
  for (std::size_t from = 0; matcher.find(text, from, line) == Found::line; from = line.end + 1) {
    const std::string_view before = text.substr(0, line.begin);
    numbers.push_back(static_cast<int>(std::ranges::count(before, '\n')));
  }
  return numbers;
}

Found find_in(std::string_view pattern, std::string_view text) {
  const auto compiled = CompiledPattern::compile(pattern);
  LineMatcher matcher(compiled.value());
  Line line;
  return matcher.find(text, 0, line);
}

bool matches(std::string_view pattern, std::string_view line) {
  return matching_lines(pattern, line) == std::vector<int>{0};
}

struct Row {
  std::string pattern;
  std::string line;
  bool matches;
};

TEST(LineMatcher, TakesExtendedExpressionsWithTheAdditionsOfGnu) {
  const std::vector<Row> rows = {
      {"a.c", "abc", true},
      {"a\\.c", "abc", false},
      {"^ab$", "ab", true},
      {"^ab$", "abab", false},
      {"(ab){2}", "abab", true},
      {"x[0-9]y[0-9]{2}", "x1y22", true},
      {"(a)\\1", "aa", true},
      {"([a-z]+) \\1", "abc abc", true},
      {"((a)(b))\\3", "abb", true},
      {"\\bbar\\b", "foo_bar", false},
      {"\\bbar\\b", "foo bar", true},
      {"\\Bar", "bar", true},
      {"\\<Foo", "x Foo", true},
      {"\\<oo", "Foo", false},
      {"oo\\>", "Foo-x", true},
      {"\\`ab\\'", "ab", true},
      {"\\w+_\\w+", "foo_bar", true},
      {"\\W$", "end.", true},
      {"\\s", "a b", true},
      {"\\s", "ab", false},
      {"^\\S+$", "ab", true},
      {"[[:upper:]]", "aB", true},
      {"[[:space:]]", "a\tb", true},
      {"[^[:alnum:]_]", "a-b", true},
      {"[]x]", "]", true},
      {"[a-]", "-", true},
      {"[^]]", "]", false},
      {"[\\.]", "\\", true},
      {"[\\.]", ".", true},
      {"[[.-.]]", "-", true},
      {"[[=a=]]", "a", true},
      {"a{1", "a{1", true},
      {"a{,2}b", "b", true},
      {"^a{,2}$", "aaa", false},
      {"a{}", "a{}", true},
      {"{x}", "{x}", true},
      {")", "a)", true},
      {"a|", "zzz", true},
      {"()", "zzz", true},
      {"^a**$", "", true},
      {"x*+y", "xxy", true},
      {"a\\|b", "a|b", true},
      {"\\/\\-\\\"", "/-\"", true},
      {"a\nb", "xbx", true},
      {"(a)x\n(b)\\1", "bb", true},
      {"", "anything", true},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(matches(row.pattern, row.line), row.matches) << row.pattern << " on " << row.line;
  }
}

TEST(LineMatcher, ARepetitionOfARepetitionIsNeitherLazyNorPossessive) {
  const std::vector<Row> rows = {
      {"https+?://", "http://", true},
      {"https+?://", "httpss://", true},
      {"a+?b", "aab", true},
      {"a+?b", "b", true},
      {"^a+?b", "aab", true},
      {"c+?a", "a", true},
      {"ab{3}?c", "ac", true},
      {"^ab{3}?c", "abbbc", true},
      {"^ab{3}?c", "abc", false},
      {"x+*y", "y", true},
      {"x{2}{0}y", "y", true},
      {"^x{2}{0}y", "xxy", false},
      {"x+{0,1}y", "y", true},
      {"\xC3\xA9+?c", "c", true},
      {"ab+?", "a", true},
      {"ab+?c+?d", "ad", true},
      {"^a++a$", "aaa", true},
      {"^a*+a$", "aaa", true},
      {"^a?+a$", "a", true},
      {"^(ab)++ab$", "abab", true},
      {"^a??$", "a", true},
      {"x+y", "y", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(matches(row.pattern, row.line), row.matches) << row.pattern << " on " << row.line;
  }
}

// Every pair of repetitions of some atoms, in some surroundings.
std::vector<std::string> stacked_repetitions() {
  const std::array<std::string, 6> operators = {"*", "+", "?", "{2}", "{0}", "{0,1}"};
  const std::vector<std::pair<std::string, std::string>> surroundings = {
      {"", "c"}, {"c", "c"}, {"^", "$"}, {"^c", "c$"}};
  std::vector<std::string> patterns;
  for (const std::string atom : {"\xC3\xA9", "(ab)"}) {
    for (const auto& [before, after] : surroundings) {
      for (const std::string& inner : operators) {
        for (const std::string& outer : operators)
          patterns.push_back(before + atom + inner + outer + after);
      }
    }
  }
  return patterns;
}

std::string lines_for_repetitions() {
  std::string lines;
  for (const std::string text : {"\xC3\xA9", "ab"}) {
    std::string row;
    for (int times = 0; times < 5; ++times, row += text) {
      for (const char* before : {"", "c", "x"}) {
        for (const char* after : {"", "c"}) lines += before + row + after + '\n';
      }
    }
  }
  lines.pop_back();
  return lines;
}

// What GNU grep -E finds for each of the patterns: the numbers of the lines (from 0).
std::vector<std::vector<int>> lines_of_grep(const std::vector<std::string>& patterns,
                                            const std::string& lines) {
  std::string directory = "/tmp/daiv-grep-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return {};
  std::ofstream(directory + "/lines") << lines << '\n';
  std::ofstream list(directory + "/patterns");
  for (const std::string& pattern : patterns) list << pattern << '\n';
  list.close();
  const std::string command = "cd " + directory +
                              " && export LC_ALL=C.UTF-8 && while IFS= read -r pattern; do "
                              "echo pattern; grep -nE -e \"$pattern\" lines; done <patterns";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
  std::vector<std::vector<int>> found;
  std::array<char, 4096> row{};
  while (output && ::fgets(row.data(), row.size(), output.get()) != nullptr) {
    if (std::string_view(row.data()) == "pattern\n")
      found.emplace_back();
    else
      found.back().push_back(std::atoi(row.data()) - 1);  // "12:text"
  }
  std::filesystem::remove_all(directory);
  return found;
}

TEST(LineMatcher, FindsForStackedRepetitionsWhatGrepDoes) {
  const std::vector<std::string> patterns = stacked_repetitions();
  const std::string lines = lines_for_repetitions();
  const std::vector<std::vector<int>> expected = lines_of_grep(patterns, lines);
  ASSERT_EQ(expected.size(), patterns.size());
  for (std::size_t i = 0; i < patterns.size(); ++i)
    EXPECT_EQ(matching_lines(patterns[i], lines), expected[i]) << patterns[i];
}

TEST(LineMatcher, TakesWhatEveryoneExpects) {
  const std::vector<Row> rows = {
      {"\\d+", "x42", true},        {"\\d", "d", false},
      {"\\D", "7", false},          {"a\\tb", "a\tb", true},
      {"[\\d.]+$", "v1.2", true},   {"^[\\w-]+$", "foo-bar", true},
      {"^(?:ab)+$", "abab", true},  {"(?i)needle", "NEEDLE", true},
      {"x(?i:y)z", "xYz", true},    {"x(?i:y)z", "xYZ", false},
      {"(?i)foo|bar", "BAR", true}, {".*?foo", "a foo", true},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(matches(row.pattern, row.line), row.matches) << row.pattern << " on " << row.line;
  }
}

TEST(LineMatcher, MatchesByCharacter) {
  const std::vector<Row> rows = {
      {"^.$", "\xC3\xA9", true},
      {"^\\w+$", "\xC3\xA9t\xC3\xA9", true},
      {"^[\xC3\xA0-\xC3\xBF]$", "\xC3\xA9", true},
      {"^[^a]$", "\xF0\x9F\x98\x80", true},
      {"(?i)\xC3\x89", "\xC3\xA9", true},
      {"\xE2\x98\x83", "a\xE2\x98\x83", true},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(matches(row.pattern, row.line), row.matches) << row.pattern << " on " << row.line;
  }
}

TEST(LineMatcher, AByteThatIsNoUtf8IsACharacterOfItsOwn) {
  const std::vector<Row> rows = {
      {"caf. needle", "caf\xE9 needle", true},
      {"^.{4} ", "caf\xE9 needle", true},
      {"caf\\w", "caf\xE9 needle", false},
      {"caf\\W", "caf\xE9 needle", true},
      {"\xC3\xA9", "\xE9", false},
      {"needle$", "\xFF\xFE needle", true},
      {"[^a-z ]", "caf\xE9", true},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(matches(row.pattern, row.line), row.matches) << row.pattern << " on " << row.line;
  }
}

TEST(LineMatcher, RefusesWhatIsMeaningless) {
  for (const std::string_view pattern : {"(",
                                         "(a",
                                         "[",
                                         "[a",
                                         "[[:nope:]]",
                                         "[z-a]",
                                         "[:space:]",
                                         "a{2,1}",
                                         "a{40000}",
                                         "\\",
                                         "a\\",
                                         "\\1",
                                         "(a)\\2",
                                         "(a\\1)",
                                         "*foo",
                                         "+a",
                                         "?a",
                                         "{2}",
                                         "a|*b",
                                         "(*a)",
                                         "(+)",
                                         "^*",
                                         "(?=a)",
                                         "(?<n>a)",
                                         "(?P<n>a)",
                                         "(?i",
                                         "(?x:a)",
                                         "[[.ab.]]",
                                         "[a-[:digit:]]",
                                         "(*UTF)a",
                                         "((((a{1,9999}){1,9999}){1,9999}){1,9999})"}) {
    EXPECT_FALSE(CompiledPattern::compile(pattern)) << pattern;
  }
}

TEST(LineMatcher, NeverMatchesAcrossLines) {
  const std::string_view text = "one\n\ntwo\nthree";
  for (const std::string_view pattern :
       {"one[^x]+two", "one\\s+two", "one\\Wtwo", "one\\D*two", "e[[:space:]]", "e[[:cntrl:]]",
        "one(.|\\W)*two", "e[\\W]", "o[\t-~]{5}", "e[\\D]t"}) {
    EXPECT_EQ(matching_lines(pattern, text), std::vector<int>{}) << pattern;
  }
  EXPECT_EQ(matching_lines("^$", text), (std::vector<int>{1}));
  EXPECT_EQ(matching_lines("e$", text), (std::vector<int>{0, 3}));
  EXPECT_EQ(matching_lines("^t", text), (std::vector<int>{2, 3}));
  EXPECT_EQ(matching_lines("x*", text), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(matching_lines("", "a\n"), (std::vector<int>{0, 1}));
}

TEST(LineMatcher, LiteralsAreFoundOnTheirLines) {
  const std::string_view text = "needle one\nnone\nan e and a needle\needle";
  EXPECT_EQ(matching_lines("needle", text), (std::vector<int>{0, 2}));
  EXPECT_EQ(matching_lines("needle$", text), (std::vector<int>{2}));
  EXPECT_EQ(matching_lines("ne?edle", text), (std::vector<int>{0, 2}));
  EXPECT_EQ(matching_lines("x?eedle", text), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(matching_lines("(ne)?edle", text), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(matching_lines("e{2}dle", text), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(matching_lines("zed|needle", text), (std::vector<int>{0, 2}));
}

TEST(LineMatcher, NoExpressionTakesLong) {
  const std::string row(4000, 'a');
  const std::vector<std::pair<std::string, std::string>> hard = {
      {"(a+)+$", row + "b"}, {"(a|aa)+$", row + "b"},
      {"(.*)*x", row},       {"^(([a-z])+.)+[A-Z]([a-z])+$", row},
      {"(a*)*\\1b", row},    {"(x+x+)+y", std::string(4000, 'x')},
  };
  for (const auto& [pattern, line] : hard) {
    const auto compiled = CompiledPattern::compile(pattern);
    ASSERT_TRUE(compiled) << pattern;
    LineMatcher matcher(*compiled);
    Line found;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_NE(matcher.find(line, 0, found), Found::line) << pattern;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << pattern;
  }
}

TEST(LineMatcher, ManyStepsOnAShortLineStillGiveTheRightAnswer) {
  // Backtracking gives up here; matching all ways at once does not.
  EXPECT_EQ(find_in("^(a+)+$", std::string(60, 'a') + "b"), Found::nothing);
  EXPECT_EQ(find_in("(a+)+$|(a|aa)+[c]", std::string(60, 'a') + "bc"), Found::nothing);
  EXPECT_EQ(find_in("(a|aa)+[c]$", std::string(60, 'a') + "cb"), Found::nothing);
  EXPECT_EQ(find_in("^(a|a?)+[^x]$", std::string(60, 'a') + "c"), Found::line);
  // On a long one it is said that it is too much.
  EXPECT_EQ(find_in("^(a+)+$", std::string(2000, 'a') + "b"), Found::too_complex);
}

}  // namespace
}  // namespace daiv::agent
