#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "api/json_value.hpp"

// Reads a request's JSON body with the semantics and the error texts of CPython 3.13's
// json.loads(bytes).
//
// Deliberately stricter in what a JSON answer could not carry: NaN, Infinity, numbers beyond the
// range of a double, lone surrogates, nesting beyond max_json_depth and more than max_json_values
// are syntax faults.
namespace daiv::api {

inline constexpr std::size_t max_json_depth = 512;
// A value takes some forty bytes where its text may take two.
inline constexpr std::size_t max_json_values = 1'000'000;
// sys.int_info.default_max_str_digits: longer whole numbers are refused by Python with a
// ValueError.
inline constexpr std::size_t max_integer_digits = 4300;

struct JsonFault {
  enum class Kind {
    syntax,      // json.JSONDecodeError
    unreadable,  // any other exception of json.loads, such as bytes that are no text
  };
  Kind kind = Kind::syntax;
  std::size_t position = 0;  // in characters of the text, without a byte order mark
  std::string reason;
};

// Takes UTF-8, UTF-16 or UTF-32 with or without a byte order mark, as json.detect_encoding tells
// them apart.
std::expected<Json, JsonFault> decode_json(std::string_view body);

}  // namespace daiv::api
