#pragma once

#include <cstdint>
#include <expected>

#include "api/json_value.hpp"

// Pydantic 2's lax mode: which JSON values pass as a boolean, a whole number or a number.
namespace daiv::api {

enum class CoercionFault {
  bool_type,
  bool_parsing,
  int_type,
  int_parsing,
  int_parsing_size,  // more digits than are taken
  int_from_float,
  negative_size,  // the same, of a number below zero
  finite_number,
  float_type,
  float_parsing,
};

std::expected<bool, CoercionFault> to_boolean(const Json& value);
// Python's whole numbers have no end. Those beyond 64 bits become INT64_MAX or INT64_MIN, which no
// field tells from them.
std::expected<std::int64_t, CoercionFault> to_integer(const Json& value);
std::expected<double, CoercionFault> to_number(const Json& value);  // always finite

}  // namespace daiv::api
