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
  int_parsing_size,  // beyond 64 bits, where Python would go on
  int_from_float,
  below_64_bits,  // a whole number less than INT64_MIN
  finite_number,
  float_type,
  float_parsing,
};

std::expected<bool, CoercionFault> to_boolean(const Json& value);
std::expected<std::int64_t, CoercionFault> to_integer(const Json& value);
std::expected<double, CoercionFault> to_number(const Json& value);  // always finite

}  // namespace daiv::api
