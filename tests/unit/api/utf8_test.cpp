#include "api/utf8.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace daiv::api {
namespace {

const std::string r = "\xef\xbf\xbd";

// What Python's bytes.decode(errors="replace") makes of these bytes.
const std::vector<std::pair<std::string, std::string>> replacements{
    {"plain", "plain"},
    {"ok \xff\xfe end", "ok " + r + r + " end"},
    {"cut \xe2\x82", "cut " + r},
    {"\xe2\x82x", r + "x"},
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    {"\xf0\x9f\x98", r},
    {"\xf0\x9f\x98\xf0\x9f\x98\x80", r + "\xf0\x9f\x98\x80"},
    {"\xed\xa0\x80", r + r + r},
    {"\xc0\x80", r + r},
    {"\xe0\x80\x80", r + r + r},
    {"\xf4\x90\x80\x80", r + r + r + r},
    {"\xf5", r},
    {"\x80", r},
    {"\xc3\xa9\xc3", "\xc3\xa9" + r},
};

TEST(Utf8, ReplacesAsPythonDoes) {
  for (const auto& [bytes, text] : replacements)
    EXPECT_EQ(replace_invalid_utf8(bytes), text) << bytes;
}

TEST(Utf8, ReplacesTheSameWhereverTheStreamIsCut) {
  for (const auto& [bytes, text] : replacements) {
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      Utf8Replacer replacer;
      std::string out;
      replacer.append(out, std::string_view(bytes).substr(0, cut));
      replacer.append(out, std::string_view(bytes).substr(cut));
      replacer.finish(out);
      EXPECT_EQ(out, text) << bytes << " cut at " << cut;
    }
    Utf8Replacer replacer;
    std::string out;
    for (const char c : bytes) replacer.append(out, std::string_view(&c, 1));
    replacer.finish(out);
    EXPECT_EQ(out, text) << bytes << " byte by byte";
  }
}

TEST(Utf8, FindsTheFirstByteThatIsNone) {
  EXPECT_EQ(find_invalid_utf8("\xc3\xa9x"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("ab\xff"), 2U);
  EXPECT_EQ(find_invalid_utf8("ab\xc3"), 2U);
}

}  // namespace
}  // namespace daiv::api
