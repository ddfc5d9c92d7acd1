#pragma once

#include <string>
#include <string_view>

#include "api/json_value.hpp"

// JSON text as Python's json.dumps(..., ensure_ascii=False, separators=(",", ":")) writes it:
// compact, UTF-8 as it is.
namespace daiv::api {

// Appends `text` between quotes. `text` must be UTF-8.
void append_json_string(std::string& out, std::string_view text);

// Appends the inside of a JSON string, without the quotes.
void append_json_escaped(std::string& out, std::string_view text);

// Appends a finite number as Python's repr(float): 1.5, 100000.0, 1e+16, 1e-05.
void append_json_number(std::string& out, double number);

void append_json(std::string& out, const Json& value);

}  // namespace daiv::api
