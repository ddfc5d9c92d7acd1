#include "api/json_decode.hpp"

#include <gtest/gtest.h>

#include <string>

#include "api/json_write.hpp"

namespace daiv::api {
namespace {

using namespace std::string_literals;

std::string text_of(const Json& value) {
  std::string out;
  append_json(out, value);
  return out;
}

struct Refusal {
  std::string body;
  std::size_t position;
  std::string reason;
};

// Positions and reasons as CPython 3.13's json.loads gives them for these bytes.
TEST(JsonDecode, RefusesWhereAndWhyPythonDoes) {
  const std::vector<Refusal> refusals{
      {"{", 1, "Expecting property name enclosed in double quotes"},
      {"{,}", 1, "Expecting property name enclosed in double quotes"},
      {"{'a':1}", 1, "Expecting property name enclosed in double quotes"},
      {"{\"a\"", 4, "Expecting ':' delimiter"},
      {"{\"a\" \"b\"}", 5, "Expecting ':' delimiter"},
      {"{\"a\":", 5, "Expecting value"},
      {"{\"a\":}", 5, "Expecting value"},
      {"{\"a\":1", 6, "Expecting ',' delimiter"},
      {"{\"a\":1 \"b\"}", 7, "Expecting ',' delimiter"},
      {"{\"a\":1,}", 6, "Illegal trailing comma before end of object"},
      {"{\"a\":1 , }", 7, "Illegal trailing comma before end of object"},
      {"{\"a\":1,", 7, "Expecting property name enclosed in double quotes"},
      {"[1,]", 2, "Illegal trailing comma before end of array"},
      {"[1,", 3, "Expecting value"},
      {"[,]", 1, "Expecting value"},
      {"[1 2]", 3, "Expecting ',' delimiter"},
      {"[", 1, "Expecting value"},
      {"", 0, "Expecting value"},
      {"   ", 3, "Expecting value"},
      {"tru", 0, "Expecting value"},
      {"-", 0, "Expecting value"},
      {"01", 1, "Extra data"},
      {"1.", 1, "Extra data"},
      {"1e", 1, "Extra data"},
      {"{} x", 3, "Extra data"},
      {"\"abc", 0, "Unterminated string starting at"},
      {"[\"abc\\", 1, "Unterminated string starting at"},
      {"\"a\nb\"", 2, "Invalid control character at"},
      {"\"\\q\"", 1, "Invalid \\escape"},
      {"\"\\u12\"", 2, "Invalid \\uXXXX escape"},
      {"\"\\u12x4\"", 2, "Invalid \\uXXXX escape"},
      {"\"\\u1234", 2, "Invalid \\uXXXX escape"},
      {"{\"\xc3\xa9\":\"\xe2\x98\x83\xf0\x9f\x98\x80\",}", 9,
       "Illegal trailing comma before end of object"},
      {"\xef\xbb\xbf{", 1, "Expecting property name enclosed in double quotes"},
  };
  for (const Refusal& refusal : refusals) {
    const auto decoded = decode_json(refusal.body);
    ASSERT_FALSE(decoded) << refusal.body;
    EXPECT_EQ(decoded.error().kind, JsonFault::Kind::syntax) << refusal.body;
    EXPECT_EQ(decoded.error().position, refusal.position) << refusal.body;
    EXPECT_EQ(decoded.error().reason, refusal.reason) << refusal.body;
  }
}

TEST(JsonDecode, GivesBackWhatPythonWouldWrite) {
  const std::vector<std::pair<std::string, std::string>> values{
      {" \r\n\t{ \"a\" : 1 } \n", "{\"a\":1}"},
      {"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}"},
      {"[true,false,null]", "[true,false,null]"},
      {"1.50", "1.5"},
      {"1e5", "100000.0"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e+16"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"-0", "0"},
      {"-0.0", "-0.0"},
      {"1e-400", "0.0"},
      {"5e-324", "5e-324"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"\"\\u00e9\\ud83d\\ude00\\/\"", "\"\xc3\xa9\xf0\x9f\x98\x80/\""},
      {"\"\\u0001\\u007f\\b\"", "\"\\u0001\x7f\\b\""},
      {"{\"k\\u0069\":[1,{}]}", "{\"ki\":[1,{}]}"},
  };
  for (const auto& [body, expected] : values) {
    const auto decoded = decode_json(body);
    ASSERT_TRUE(decoded) << body;
    EXPECT_EQ(text_of(*decoded), expected) << body;
  }
}

TEST(JsonDecode, RefusesWhatNoAnswerCouldCarry) {
  for (const std::string& body :
       {"NaN"s, "Infinity"s, "-Infinity"s, "[NaN]"s, "1e999"s, "-1e999"s, "\"\\ud800\""s,
        "\"\\udc00\""s, "\"\\ud800\\u0041\""s, "\"\\ud800x\""s}) {
    const auto decoded = decode_json(body);
    ASSERT_FALSE(decoded) << body;
    EXPECT_EQ(decoded.error().kind, JsonFault::Kind::syntax) << body;
  }
}

TEST(JsonDecode, CallsBytesThatAreNoTextUnreadable) {
  for (const std::string& body :
       {"\"\xff\""s, "\"\xc0\x80\""s, "\"\xed\xa0\x80\""s, "{\"a\":\"\xe2\x82\"}"s}) {
    const auto decoded = decode_json(body);
    ASSERT_FALSE(decoded) << body;
    EXPECT_EQ(decoded.error().kind, JsonFault::Kind::unreadable) << body;
  }
}

TEST(JsonDecode, ReadsUtf16AndUtf32) {
  EXPECT_EQ(text_of(*decode_json("\xff\xfe[\0"
                                 "1\0]\0"s)),
            "[1]");
  EXPECT_EQ(text_of(*decode_json("\0[\0"
                                 "1\0]"s)),
            "[1]");
  EXPECT_EQ(text_of(*decode_json("\0\0\0[\0\0\0]"s)), "[]");
  EXPECT_EQ(text_of(*decode_json("\"\0\x3d\xd8\x00\xde\"\0"s)), "\"\xf0\x9f\x98\x80\"");
  EXPECT_FALSE(decode_json("\"\0\x3d\xd8\"\0"s));
}

TEST(JsonDecode, BoundsDepthDigitsAndValues) {
  EXPECT_TRUE(decode_json(std::string(max_json_depth, '[') + std::string(max_json_depth, ']')));
  const auto deep = decode_json(std::string(1'000'000, '['));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().reason, "Nesting too deep");
  EXPECT_TRUE(decode_json(std::string(max_integer_digits, '9')));
  EXPECT_EQ(decode_json(std::string(max_integer_digits + 1, '9')).error().kind,
            JsonFault::Kind::unreadable);
  std::string many = "[0";
  for (std::size_t i = 0; i < max_json_values; ++i) many += ",0";
  EXPECT_EQ(decode_json(many + "]").error().reason, "Too many values");
}

}  // namespace
}  // namespace daiv::api
