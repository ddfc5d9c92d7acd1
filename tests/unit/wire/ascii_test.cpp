#include "wire/ascii.hpp"

#include <gtest/gtest.h>

namespace daiv::wire::test {
namespace {

TEST(Ascii, KnowsHexadecimalDigitsAndNothingElse) {
  for (int byte = -128; byte < 128; ++byte) {
    const char c = static_cast<char>(byte);
    const auto at = std::string_view("0123456789abcdef").find(lower(c));
    EXPECT_EQ(hex_value(c), at == std::string_view::npos ? -1 : static_cast<int>(at)) << byte;
  }
}

TEST(Ascii, LowersItsLettersAndLeavesAllOtherBytes) {
  EXPECT_EQ(lower("Content-TYPE@[`{ \xc3\x84"), "content-type@[`{ \xc3\x84");
  EXPECT_EQ(lower(std::string_view("A\0B", 3)), std::string_view("a\0b", 3));
}

TEST(Ascii, ComparesWithoutRegardToCase) {
  EXPECT_TRUE(equal_ignoring_case("Host", "hOST"));
  EXPECT_TRUE(equal_ignoring_case("", ""));
  EXPECT_FALSE(equal_ignoring_case("Host", "Hos"));
  EXPECT_FALSE(equal_ignoring_case("@", "`"));  // apart by the same bit as letters
  EXPECT_FALSE(equal_ignoring_case("\xc3\x84", "\xc3\xa4"));
}

TEST(Ascii, TrimsBothEnds) {
  EXPECT_EQ(trim(" \t a b\t"), "a b");
  EXPECT_EQ(trim(" \t "), "");
  EXPECT_EQ(trim("\r\na "), "\r\na");
  EXPECT_EQ(trim_lines("\r\n a\n"), "a");
}

TEST(Ascii, TokensAreThoseOfHttp) {
  EXPECT_TRUE(is_token("X-Api_Key.1~"));
  for (const std::string_view text : {"", "a b", "a:b", "a\tb", "a\"", "a/b", "\xc3\xa4", "{}"})
    EXPECT_FALSE(is_token(text)) << text;
  EXPECT_FALSE(is_token(std::string_view("a\0", 2)));
}

}  // namespace
}  // namespace daiv::wire::test
