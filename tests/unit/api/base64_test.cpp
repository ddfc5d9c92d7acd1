#include "api/base64.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace daiv::api {
namespace {

TEST(Base64, DecodesAsPythonDoes) {
  const std::vector<std::pair<std::string, std::string>> texts{
      {"", ""},
      {"aGk=", "hi"},
      {"aGVs\nbG8=", "hello"},
      {"aG==", "h"},
      {"aGk==", "hi"},
      {"aGk=!!", "hi"},
      {"aGk=aGk=", "hi"},
      {"    ", ""},
      {"aG= =", "h"},
      {"====", ""},
      {"/+A=", "\xff\xe0"},
      {"aGVsbG8gd29y\nbGQgYWdhaW4=", "hello world again"},  // groups on both sides of a break
      {"aGVs=bG8=", "hello"},
  };
  for (const auto& [text, bytes] : texts) {
    const auto decoded = decode_base64(text);
    ASSERT_TRUE(decoded) << text;
    EXPECT_TRUE(check_base64(text)) << text;
    EXPECT_EQ(*decoded, bytes) << text;
  }
}

TEST(Base64, RefusesWithPythonsWords) {
  const std::string alone = ") cannot be 1 more than a multiple of 4";
  const std::string count = "Invalid base64-encoded string: number of data characters (";
  const std::vector<std::pair<std::string, std::string>> texts{
      {"a", count + "1" + alone},
      {"aaaaa", count + "5" + alone},
      {"a===", count + "1" + alone},
      {"aG", "Incorrect padding"},
      {"aGVsbG8", "Incorrect padding"},
      {"aG=a", "Incorrect padding"},
      {"aG!k", "Incorrect padding"},
      {"aG!k=", "Only base64 data is allowed"},
      {"-_-_", "Only base64 data is allowed"},
      {"\xc3\xa9", "Only base64 data is allowed"},
  };
  for (const auto& [text, reason] : texts) {
    const auto decoded = decode_base64(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error(), reason) << text;
    ASSERT_FALSE(check_base64(text)) << text;
    EXPECT_EQ(check_base64(text).error(), reason) << text;
  }
}

TEST(Base64, EncodesEveryLengthSoThatItDecodesAgain) {
  EXPECT_EQ(encode_base64("hello"), "aGVsbG8=");
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
    bytes += static_cast<char>(i * 7);
  }
}

}  // namespace
}  // namespace daiv::api
