#include "agent/seed_policy.hpp"

#include <gtest/gtest.h>

namespace daiv::agent {
namespace {

TEST(SeedPolicy, TidiesNames) {
  struct Case {
    std::string name;
    NameVerdict verdict;
    std::string path;
  };
  const std::string widest(255, 'x');
  std::string deepest = "a";
  while (deepest.size() < 4095) deepest += "/a";
  const Case cases[] = {
      {"a", NameVerdict::fine, "a"},
      {"./a", NameVerdict::fine, "a"},
      {"././a//b/./c", NameVerdict::fine, "a/b/c"},
      {"slash/", NameVerdict::fine, "slash"},
      {"...", NameVerdict::fine, "..."},
      {"a..b/..c/d..", NameVerdict::fine, "a..b/..c/d.."},
      {" ", NameVerdict::fine, " "},
      {"\xff", NameVerdict::fine, "\xff"},
      {widest, NameVerdict::fine, widest},
      {deepest, NameVerdict::fine, deepest},
      {"", NameVerdict::root, ""},
      {".", NameVerdict::root, ""},
      {"./", NameVerdict::root, ""},
      {".//.", NameVerdict::root, ""},
      {"/", NameVerdict::absolute, ""},
      {"/etc/evil", NameVerdict::absolute, ""},
      {"//a", NameVerdict::absolute, ""},
      {"/../a", NameVerdict::absolute, ""},
      {"..", NameVerdict::parent, ""},
      {"../evil", NameVerdict::parent, ""},
      {"a/..", NameVerdict::parent, ""},
      {"a/../b", NameVerdict::parent, ""},
      {"a/../../evil", NameVerdict::parent, ""},
      {"./..", NameVerdict::parent, ""},
      {widest + "x", NameVerdict::too_long, ""},
      {"a/" + widest + "x/b", NameVerdict::too_long, ""},
      {widest + "x/..", NameVerdict::parent, ""},
      {deepest + "a", NameVerdict::too_long, ""},
  };
  for (const auto& test : cases) {
    const auto tidy = tidy_name(test.name);
    EXPECT_EQ(tidy.verdict, test.verdict) << test.name;
    EXPECT_EQ(tidy.path, test.path) << test.name;
  }
}

TEST(SeedPolicy, KeepsLinksThatStayInside) {
  struct Case {
    const char* path;
    const char* target;
    bool inside;
  };
  constexpr Case cases[] = {
      {"in", "file", true},          {"here", ".", true},          {"self", "self", true},
      {"absolute", "/etc", false},   {"empty", "", false},         {"above", "..", false},
      {"above", "../x", false},      {"dir/up", "../file", true},  {"dir/up", "..", true},
      {"dir/far", "../../x", false}, {"via", "a/../../x", false},  {"via", "a/../x", true},
      {"d/via", "./../x//", true},   {"d/e/f", "../../..", false}, {"d/e/f", "../../a/../b", true},
  };
  for (const auto& test : cases)
    EXPECT_EQ(link_stays_inside(test.path, test.target), test.inside) << test.target;
}

TEST(SeedPolicy, NormalisesModes) {
  struct Case {
    mode_t given, file, directory;
  };
  constexpr Case cases[] = {{0644, 0644, 0755}, {0600, 0644, 0755},  {0, 0644, 0755},
                            {0666, 0666, 0777}, {0755, 0755, 0755},  {0700, 0755, 0755},
                            {0610, 0755, 0755}, {04755, 0755, 0755}, {02644, 0644, 0755},
                            {0777, 0777, 0777}, {0555, 0755, 0755},  {01777, 0777, 0777}};
  for (const auto& test : cases) {
    EXPECT_EQ(file_mode(test.given), test.file) << test.given;
    EXPECT_EQ(directory_mode(test.given), test.directory) << test.given;
  }
}

TEST(SeedPolicy, ShowsNamesAsPythonDoes) {
  EXPECT_EQ(quote_as_python("/etc/evil"), "'/etc/evil'");
  EXPECT_EQ(quote_as_python("it's"), "\"it's\"");
  EXPECT_EQ(quote_as_python("it's \"x\""), "'it\\'s \"x\"'");
  EXPECT_EQ(quote_as_python("a\\b\n\t\x01\x7f"), "'a\\\\b\\n\\t\\x01\\x7f'");
  EXPECT_EQ(quote_as_python("é☃"), "'é☃'");
  EXPECT_EQ(quote_as_python("\xe9\xed\xa0\x80"), "'\\udce9\\udced\\udca0\\udc80'");
  EXPECT_EQ(quote_as_python("\xc2\x85"), "'\\x85'");
}

TEST(SeedPolicy, RefusalsNameTheMember) {
  EXPECT_EQ(refusal(NameVerdict::absolute, "/a/"), "Archive contains an absolute path: '/a'");
  EXPECT_EQ(refusal(NameVerdict::parent, ".."),
            "Archive contains a parent-directory traversal path: '..'");
  EXPECT_EQ(refusal(NameVerdict::fine, "a"), "");
  EXPECT_EQ(refusal(NameVerdict::too_long, "a"), "");
}

}  // namespace
}  // namespace daiv::agent
