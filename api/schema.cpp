#include "api/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/base64.hpp"
#include "api/coercion.hpp"
#include "api/json_write.hpp"

namespace daiv::api {
namespace {

struct Fault {
  std::string type;
  std::string message;
};

Fault describe(CoercionFault fault) {
  switch (fault) {
    case CoercionFault::bool_type:
      return {"bool_type", "Input should be a valid boolean"};
    case CoercionFault::bool_parsing:
      return {"bool_parsing", "Input should be a valid boolean, unable to interpret input"};
    case CoercionFault::int_type:
      return {"int_type", "Input should be a valid integer"};
    case CoercionFault::int_parsing:
      return {"int_parsing",
              "Input should be a valid integer, unable to parse string as an integer"};
    case CoercionFault::int_parsing_size:
    case CoercionFault::negative_size:
      return {"int_parsing_size",
              "Unable to parse input string as an integer, exceeded maximum size"};
    case CoercionFault::int_from_float:
      return {"int_from_float",
              "Input should be a valid integer, got a number with a fractional part"};
    case CoercionFault::finite_number:
      return {"finite_number", "Input should be a finite number"};
    case CoercionFault::float_type:
      return {"float_type", "Input should be a valid number"};
    case CoercionFault::float_parsing:
      return {"float_parsing",
              "Input should be a valid number, unable to parse string as a number"};
  }
  return {};
}

// 'a', 'b' or 'c'
std::string list_choices(std::span<const std::string_view> choices) {
  std::string out;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i != 0) out += i + 1 == choices.size() ? " or " : ", ";
    out += fmt::format("'{}'", choices[i]);
  }
  return out;
}

class Checker {
public:
  std::vector<ValidationError> errors;
  Location location;

  // True where `value` has no fault.
  bool check(const Schema& schema, const Json& value) {
    const Schema* const outside = std::exchange(guard_, schema.guarded ? &schema : guard_);
    const bool good = judge(schema, value);
    guard_ = outside;
    return good;
  }

private:
  bool judge(const Schema& schema, const Json& value) {
    if (errors.size() >= max_listed_errors) return false;
    if (schema.nullable && value.is_null()) return true;
    if (!check_kind(schema, value)) return false;
    if (schema.rule == nullptr) return true;
    const std::optional<std::string> refusal = schema.rule(value);
    if (!refusal) return true;
    return fail(schema, value, {"value_error", "Value error, " + *refusal}, R"({"error":{}})");
  }

  bool fail(const Schema& schema, const Json& value, Fault fault, std::string context = {}) {
    errors.push_back({std::move(fault.type), location, std::move(fault.message), &value, &schema,
                      std::move(context), guard_});
    return false;
  }

  bool check_kind(const Schema& schema, const Json& value) {
    switch (schema.kind) {
      case SchemaKind::text:
      case SchemaKind::secret:
        return value.string() != nullptr ||
               fail(schema, value, {"string_type", "Input should be a valid string"});
      case SchemaKind::integer:
        return check_integer(schema, value);
      case SchemaKind::number:
        return check_number(schema, value);
      case SchemaKind::boolean: {
        const auto boolean = to_boolean(value);
        return boolean || fail(schema, value, describe(boolean.error()));
      }
      case SchemaKind::base64:
        return check_base64(schema, value);
      case SchemaKind::list:
        return check_list(schema, value);
      case SchemaKind::dictionary:
        return check_dictionary(schema, value);
      case SchemaKind::model:
        return check_model(schema, value);
      case SchemaKind::choice:
        return check_choice(schema, value);
    }
    return false;
  }

  bool too_small(const Schema& schema, const Json& value) {
    return fail(schema, value,
                {"greater_than_equal",
                 fmt::format("Input should be greater than or equal to {}", *schema.minimum)},
                fmt::format(R"({{"ge":{}}})", *schema.minimum));
  }

  bool too_large(const Schema& schema, const Json& value) {
    return fail(schema, value,
                {"less_than_equal",
                 fmt::format("Input should be less than or equal to {}", *schema.maximum)},
                fmt::format(R"({{"le":{}}})", *schema.maximum));
  }

  bool check_integer(const Schema& schema, const Json& value) {
    const auto integer = to_integer(value);
    if (!integer) {
      if (integer.error() == CoercionFault::negative_size && schema.minimum)
        return too_small(schema, value);
      if (integer.error() == CoercionFault::int_parsing_size && schema.maximum &&
          value.integer() != nullptr)
        return too_large(schema, value);
      return fail(schema, value, describe(integer.error()));
    }
    if (schema.minimum && *integer < *schema.minimum) return too_small(schema, value);
    if (schema.maximum && *integer > *schema.maximum) return too_large(schema, value);
    return true;
  }

  bool check_number(const Schema& schema, const Json& value) {
    const auto number = to_number(value);
    if (!number) return fail(schema, value, describe(number.error()));
    if (schema.minimum && *number < static_cast<double>(*schema.minimum))
      return too_small(schema, value);
    if (schema.maximum && *number > static_cast<double>(*schema.maximum))
      return too_large(schema, value);
    return true;
  }

  bool check_base64(const Schema& schema, const Json& value) {
    if (value.string() == nullptr)
      return fail(schema, value, {"bytes_type", "Input should be a valid bytes"});
    const auto checked = api::check_base64(*value.string());
    if (checked) return true;
    return fail(schema, value,
                {"base64_decode", fmt::format("Base64 decoding error: '{}'", checked.error())},
                fmt::format(R"({{"error":"{}"}})", checked.error()));
  }

  bool check_list(const Schema& schema, const Json& value) {
    const Json::Array* items = value.array();
    if (items == nullptr) return fail(schema, value, {"list_type", "Input should be a valid list"});
    bool good = true;
    for (std::size_t i = 0; i < items->size(); ++i) {
      location.emplace_back(i);
      good = check(*schema.item, (*items)[i]) && good;
      location.pop_back();
    }
    return good;
  }

  bool check_dictionary(const Schema& schema, const Json& value) {
    const Json::Object* members = value.object();
    if (members == nullptr)
      return fail(schema, value, {"dict_type", "Input should be a valid dictionary"});
    bool good = true;
    for (const JsonMember& member : *members) {
      location.emplace_back(member.name);
      good = check(*schema.item, member.value) && good;
      location.pop_back();
    }
    return good;
  }

  bool check_model(const Schema& schema, const Json& value) {
    if (value.object() == nullptr)
      return fail(schema, value,
                  {"model_attributes_type",
                   "Input should be a valid dictionary or object to extract fields from"});
    bool good = true;
    for (const SchemaField& field : schema.fields) {
      const Json* member = value.find(field.name);
      if (member == nullptr && !field.required) continue;
      location.emplace_back(std::string(field.name));
      good = (member == nullptr ? fail(schema, value, {"missing", "Field required"})
                                : check(field.schema, *member)) &&
             good;
      location.pop_back();
    }
    return good;
  }

  bool check_choice(const Schema& schema, const Json& value) {
    const std::string* text = value.string();
    if (text != nullptr &&
        std::find(schema.choices.begin(), schema.choices.end(), *text) != schema.choices.end())
      return true;
    const std::string expected = list_choices(schema.choices);
    return fail(schema, value, {"literal_error", "Input should be " + expected},
                fmt::format(R"({{"expected":"{}"}})", expected));
  }

  const Schema* guard_ = nullptr;
};

}  // namespace

std::vector<ValidationError> check_schema(const Schema& schema, const Json& value,
                                          Location location) {
  Checker checker;
  checker.location = std::move(location);
  checker.check(schema, value);
  return std::move(checker.errors);
}

}  // namespace daiv::api
