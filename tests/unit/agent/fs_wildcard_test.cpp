#include "agent/fs_wildcard.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace daiv::agent {
namespace {

struct Row {
  std::string pattern;
  std::string name;
  bool shell;
  bool glob;
};

TEST(Wildcard, MatchesNames) {
  const std::vector<Row> rows = {
      {"*", ".hidden", true, true},
      {"*.py", "a.py", true, true},
      {"*.py", "a.pyc", false, false},
      {"**.py", "a.py", true, true},
      {"file?.txt", "file1.txt", true, true},
      {"file?.txt", "file10.txt", false, false},
      {"?", "\xC3\xA9", true, true},
      {"?", "\xFF", true, true},
      {"??", "\xC3\xA9", false, false},
      {"[ab].py", "a.py", true, true},
      {"[!ab].*", "c.md", true, true},
      {"[!ab].*", "a.md", false, false},
      {"[^ab]", "c", true, false},
      {"[^ab]", "^", true, true},
      {"[]a]", "]", true, true},
      {"[a-c-]", "-", true, true},
      {"[\xC3\xA0-\xC3\xBF]", "\xC3\xA9", true, true},
      {"[[:digit:]]x", "7x", true, false},
      {"[", "[", true, true},
      {"x[y", "x[y", true, true},
      {"we[[]ir].txt", "we[ir].txt", true, true},
      {"\\*", "*", true, false},
      {"\\*", "\\x", false, true},
      {"{a,b}", "{a,b}", true, true},
      {"{a,b}", "a", false, false},
      {"", "", true, true},
      {"", "a", false, false},
      {"a*b*c", "aXbXbXc", true, true},
      {"a*b*c", "aXbX", false, false},
      {"*.egg-info", "x.egg-info", true, true},
      {"*.PY", "a.py", false, false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Wildcard(row.pattern, WildcardFlavour::shell).matches(row.name), row.shell)
        << row.pattern << " " << row.name;
    EXPECT_EQ(Wildcard(row.pattern, WildcardFlavour::glob).matches(row.name), row.glob)
        << row.pattern << " " << row.name;
  }
}

TEST(Wildcard, ManyStarsDoNotExplode) {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a?";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(Wildcard(pattern + "b", WildcardFlavour::shell).matches(std::string(255, 'a')));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

}  // namespace
}  // namespace daiv::agent
