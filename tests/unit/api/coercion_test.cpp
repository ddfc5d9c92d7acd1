#include "api/coercion.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "api/json_decode.hpp"

namespace daiv::api {
namespace {

Json json(std::string_view text) { return *decode_json(text); }

// Each table holds what pydantic 2.13 answers for that JSON value.
TEST(Coercion, TakesWholeNumbersAsPydanticDoes) {
  const std::vector<std::pair<std::string, std::int64_t>> taken{
      {"5", 5},
      {"5.0", 5},
      {"true", 1},
      {"false", 0},
      {"-0.0", 0},
      {"\"5\"", 5},
      {"\" 5 \"", 5},
      {"\"+5\"", 5},
      {"\"-5\"", -5},
      {"\"5.0\"", 5},
      {"\"5.00\"", 5},
      {"\"1_000\"", 1000},
      {"\"007\"", 7},
      {"\"-007\"", -7},
      {"\"\\t5\\n\"", 5},
      {"\"1_0.0\"", 10},
      {"\"+5.0\"", 5},
      {"\"5\\u00a0\"", 5},
      {"\"\\u20035\"", 5},
      {"1e15", 1'000'000'000'000'000},
      {"-9223372036854775808", INT64_MIN},
      {"9223372036854775807", INT64_MAX},
      // Where Python's numbers have no end, ours stand for all that are beyond.
      {"9223372036854775808", INT64_MAX},
      {"-9223372036854775809", INT64_MIN},
      {std::string(255, '9'), INT64_MAX},
      {"-" + std::string(255, '9'), INT64_MIN},
      {"\"" + std::string(4300, '9') + "\"", INT64_MAX},
      {"\"-" + std::string(30, '9') + ".0\"", INT64_MIN},
      {"\"1_" + std::string(30, '0') + "\"", INT64_MAX},
  };
  for (const auto& [text, value] : taken) EXPECT_EQ(to_integer(json(text)), value) << text;
}

TEST(Coercion, RefusesOtherWholeNumbersAsPydanticDoes) {
  using enum CoercionFault;
  const std::vector<std::pair<std::string, CoercionFault>> refused{
      {"\"5.\"", int_parsing},
      {"\".0\"", int_parsing},
      {"\"1__0\"", int_parsing},
      {"\"_1\"", int_parsing},
      {"\"1_\"", int_parsing},
      {"\"0x10\"", int_parsing},
      {"\"1e3\"", int_parsing},
      {"\"\"", int_parsing},
      {"\"5.5\"", int_parsing},
      {"\"1 2\"", int_parsing},
      {"\"+ 5\"", int_parsing},
      {"\"--5\"", int_parsing},
      {"\"5.0_0\"", int_parsing},
      {"\"\\u0663\"", int_parsing},
      {"\"inf\"", int_parsing},
      {"5.5", int_from_float},
      {"1e-5", int_from_float},
      {"1e19", int_parsing_size},
      {"2.5e300", int_parsing_size},
      {"[]", int_type},
      {"{}", int_type},
      {"null", int_type},
      {"\"" + std::string(4301, '9') + "\"", int_parsing_size},
      // Beyond the Docker variant, which fails at such numbers.
      {std::string(300, '9'), int_parsing_size},
      {"-" + std::string(300, '9'), negative_size},
  };
  for (const auto& [text, fault] : refused) {
    const auto value = to_integer(json(text));
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error(), fault) << text;
  }
}

TEST(Coercion, TakesNumbersAsPydanticDoes) {
  const std::vector<std::pair<std::string, double>> taken{
      {"5", 5.0},          {"0.5", 0.5},          {"true", 1.0},      {"\" 5 \"", 5.0},
      {"\"+5\"", 5.0},     {"\"5.\"", 5.0},       {"\".5\"", 0.5},    {"\"+.5\"", 0.5},
      {"\"1e3\"", 1000.0}, {"\"1_000\"", 1000.0}, {"\"5.0_0\"", 5.0}, {"\"1_0.5\"", 10.5},
      {"\"1e1_0\"", 1e10}, {"\"-1\"", -1.0},
  };
  for (const auto& [text, value] : taken) EXPECT_EQ(to_number(json(text)), value) << text;
}

TEST(Coercion, RefusesOtherNumbersAsPydanticDoes) {
  using enum CoercionFault;
  const std::vector<std::pair<std::string, CoercionFault>> refused{
      {"\"two\"", float_parsing},
      {"\"\"", float_parsing},
      {"\"1__0\"", float_parsing},
      {"\"5e\"", float_parsing},
      {"\"0x10\"", float_parsing},
      {"\"+ 5\"", float_parsing},
      {"\"+-5\"", float_parsing},
      {"\"--5\"", float_parsing},
      {"{}", float_type},
      {"null", float_type},
      // With allow_inf_nan=False, which beyond the Docker variant is asked for.
      {"\"inf\"", finite_number},
      {"\"nan\"", finite_number},
      {"\"-Infinity\"", finite_number},
      {"\"1e400\"", finite_number},
      {std::string(400, '9'), finite_number},
  };
  for (const auto& [text, fault] : refused) {
    const auto value = to_number(json(text));
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error(), fault) << text;
  }
}

TEST(Coercion, TakesBooleansAsPydanticDoes) {
  for (const std::string_view yes :
       {"true", "1", "1.0", "\"1\"", "\"ON\"", "\"t\"", "\"y\"", "\"Yes\"", "\"true\""})
    EXPECT_EQ(to_boolean(json(yes)), true) << yes;
  for (const std::string_view no :
       {"false", "0", "0.0", "\"0\"", "\"off\"", "\"f\"", "\"n\"", "\"NO\"", "\"False\""})
    EXPECT_EQ(to_boolean(json(no)), false) << no;
  for (const std::string_view bad :
       {"2", "-1", "5.0", "\"2\"", "\" true\"", "\"1.0\"", "\"\"", "\"maybe\""})
    EXPECT_EQ(to_boolean(json(bad)).error(), CoercionFault::bool_parsing) << bad;
  for (const std::string_view bad : {"null", "[]", "{}", "0.5", "1e19", "100000000000000000000"})
    EXPECT_EQ(to_boolean(json(bad)).error(), CoercionFault::bool_type) << bad;
}

}  // namespace
}  // namespace daiv::api
