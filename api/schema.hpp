#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/json_value.hpp"

// A declarative description of a request's body, and its check with the errors of pydantic 2 as
// FastAPI answers them.
namespace daiv::api {

enum class SchemaKind {
  text,
  secret,
  integer,
  number,
  boolean,
  base64,
  list,
  dictionary,
  model,
  choice
};

struct Schema;
struct SchemaField;

// What a value must satisfy beyond its type: why it does not, or nothing. Called with a value that
// passed the rest.
using SchemaRule = std::optional<std::string> (*)(const Json& value);

struct Schema {
  SchemaKind kind = SchemaKind::text;
  bool nullable = false;
  std::optional<std::int64_t> minimum = {};  // of an integer or number
  std::optional<std::int64_t> maximum = {};
  const Schema* item = nullptr;                    // list, dictionary: of each value
  std::span<const SchemaField> fields = {};        // model
  std::span<const std::string_view> choices = {};  // choice
  SchemaRule rule = nullptr;
  std::string_view name = {};  // model: of the OpenAPI component
  // What a caller puts into its place and it does not know may be a secret: it is never echoed.
  bool guarded = false;
};

struct SchemaField {
  std::string_view name;
  Schema schema;
  bool required = false;
};

using Location = std::vector<std::variant<std::string, std::size_t>>;

struct ValidationError {
  std::string type;
  Location location;
  std::string message;
  const Json* input = nullptr;     // into the value that was checked; null: JSON's null
  const Schema* schema = nullptr;  // of `input`: tells which parts of it are secrets
  std::string context;             // JSON text of `ctx`; empty: none
  const Schema* guard = nullptr;   // the guarded schema in whose place `input` stands; null: none
};

// More errors than these are not listed, and an input whose text is longer is not echoed whole.
inline constexpr std::size_t max_listed_errors = 1000;
inline constexpr std::size_t max_echoed_bytes = 1U << 20;

// All faults of `value`, in pydantic's order; `location` is that of the value itself.
std::vector<ValidationError> check_schema(const Schema& schema, const Json& value,
                                          Location location);

// The body {"detail":[...]} of the 422 answer. Secrets are shown as "**********".
std::string validation_answer(std::span<const ValidationError> errors);

}  // namespace daiv::api
