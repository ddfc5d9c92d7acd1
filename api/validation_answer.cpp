#include <fmt/format.h>

#include <algorithm>

#include "api/json_write.hpp"
#include "api/schema.hpp"

namespace daiv::api {
namespace {

constexpr std::string_view mask = "\"**********\"";

bool is_secret_holder(const Schema& schema) {
  const auto secret = [](const SchemaField& field) {
    return field.schema.kind == SchemaKind::secret;
  };
  if (schema.kind == SchemaKind::model)
    return std::any_of(schema.fields.begin(), schema.fields.end(), secret);
  return schema.item != nullptr && is_secret_holder(*schema.item);
}

const Schema* field_schema(const Schema& schema, std::string_view name) {
  if (schema.kind == SchemaKind::dictionary) return schema.item;
  for (const SchemaField& field : schema.fields)
    if (field.name == name) return &field.schema;
  return nullptr;
}

void append_masked(std::string& out, const Json& value, const Schema* schema);

void append_masked_object(std::string& out, const Json::Object& members, const Schema& schema) {
  out += '{';
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i != 0) out += ',';
    append_json_string(out, members[i].name);
    out += ':';
    append_masked(out, members[i].value, field_schema(schema, members[i].name));
  }
  out += '}';
}

void append_masked_array(std::string& out, const Json::Array& items, const Schema& schema) {
  // A list where a secret's own structure was expected holds nothing that may be shown either.
  const Schema* item = schema.kind == SchemaKind::list ? schema.item : &schema;
  out += '[';
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += ',';
    append_masked(out, items[i], item);
  }
  out += ']';
}

// Writes `value` without the secrets that stand in it where `schema` has them, or that a caller put
// in place of the structure that holds them.
void append_masked(std::string& out, const Json& value, const Schema* schema) {
  if (schema != nullptr && !value.is_null()) {
    if (schema->kind == SchemaKind::secret ||
        (is_secret_holder(*schema) && value.string() != nullptr)) {
      out += mask;
      return;
    }
    if (const Json::Object* members = value.object())
      return append_masked_object(out, *members, *schema);
    if (const Json::Array* items = value.array()) return append_masked_array(out, *items, *schema);
  }
  append_json(out, value);
}

void append_location(std::string& out, const Location& location) {
  out += '[';
  for (std::size_t i = 0; i < location.size(); ++i) {
    if (i != 0) out += ',';
    if (const std::string* name = std::get_if<std::string>(&location[i])) {
      append_json_string(out, *name);
    } else {
      out += std::to_string(std::get<std::size_t>(location[i]));
    }
  }
  out += ']';
}

void append_input(std::string& out, const ValidationError& error) {
  if (error.input == nullptr) {
    out += "null";
    return;
  }
  const std::size_t start = out.size();
  append_masked(out, *error.input, error.schema);
  const std::size_t size = out.size() - start;
  if (size <= max_echoed_bytes) return;
  out.resize(start);
  append_json_string(out, fmt::format("({} bytes)", size));
}

void append_error(std::string& out, const ValidationError& error) {
  out += R"({"type":)";
  append_json_string(out, error.type);
  out += R"(,"loc":)";
  append_location(out, error.location);
  out += R"(,"msg":)";
  append_json_string(out, error.message);
  out += R"(,"input":)";
  append_input(out, error);
  if (!error.context.empty()) out += R"(,"ctx":)" + error.context;
  out += '}';
}

}  // namespace

std::string validation_answer(std::span<const ValidationError> errors) {
  std::string out = R"({"detail":[)";
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (i != 0) out += ',';
    append_error(out, errors[i]);
  }
  out += "]}";
  return out;
}

}  // namespace daiv::api
