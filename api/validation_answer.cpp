#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/json_write.hpp"
#include "api/schema.hpp"

namespace daiv::api {
namespace {

// Whether a secret may stand in a value of this kind.
bool holds_secret(const Schema& schema) {
  if (schema.kind == SchemaKind::secret) return true;
  if (schema.item != nullptr && holds_secret(*schema.item)) return true;
  return std::any_of(schema.fields.begin(), schema.fields.end(),
                     [](const SchemaField& field) { return holds_secret(field.schema); });
}

// Whether `text` names a member on the way to a secret: such as a whole body that was not sent as
// JSON, or the block with the secrets at another place than its own.
bool names_secret(const Schema& schema, std::string_view text) {
  if (schema.item != nullptr && names_secret(*schema.item, text)) return true;
  return std::any_of(schema.fields.begin(), schema.fields.end(), [text](const SchemaField& field) {
    return holds_secret(field.schema) &&
           (text.contains(field.name) || names_secret(field.schema, text));
  });
}

const Schema* field_schema(const Schema& schema, std::string_view name) {
  if (schema.kind == SchemaKind::dictionary) return schema.item;
  for (const SchemaField& field : schema.fields)
    if (field.name == name) return &field.schema;
  return nullptr;
}

bool is_one_text(SchemaKind kind) {
  return kind != SchemaKind::list && kind != SchemaKind::dictionary && kind != SchemaKind::model;
}

// Texts, and what may hold some.
bool may_tell(const Json& value) {
  if (const Json::Object* members = value.object()) return !members->empty();
  if (const Json::Array* items = value.array()) return !items->empty();
  return value.string() != nullptr;
}

// Writes values without the secrets that stand in them where their schema has them, and without
// what a caller may have put in place of the structure that holds them. Outside of a guarded schema
// all else is written as it came; inside, what the schema knows.
class Echo {
public:
  Echo(std::string& out, const Schema* guard) : out_(out), guard_(guard) {}

  void append(const Json& value, const Schema& schema) {
    const Schema* const outside = std::exchange(guard_, schema.guarded ? &schema : guard_);
    append_inside(value, schema);
    guard_ = outside;
  }

  void mask() { out_ += R"("**********")"; }

private:
  void append_inside(const Json& value, const Schema& schema) {
    if (schema.kind == SchemaKind::secret && !value.is_null()) return mask();
    if (guard_ == nullptr && !holds_secret(schema)) return append_json(out_, value);
    if (const std::string* text = value.string()) return append_text(*text, schema);
    if (guard_ != nullptr && is_one_text(schema.kind) && may_tell(value)) return mask();
    if (const Json::Object* members = value.object()) return append_object(*members, schema);
    if (const Json::Array* items = value.array()) return append_array(*items, schema);
    append_json(out_, value);
  }

  // In place of a structure, a word is as harmless as one of its texts; what was to be the
  // structure is not, nor is anything in place of secrets.
  void append_text(const std::string& text, const Schema& schema) {
    const bool among_secrets = guard_ != nullptr && !schema.guarded && holds_secret(schema);
    const Schema& names = guard_ == nullptr ? schema : *guard_;
    const bool known = guard_ != nullptr && is_one_text(schema.kind);
    if (among_secrets || (!known && names_secret(names, text))) return mask();
    append_json_string(out_, text);
  }

  void append_object(const Json::Object& members, const Schema& schema) {
    out_ += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i != 0) out_ += ',';
      append_json_string(out_, members[i].name);
      out_ += ':';
      const Schema* field = field_schema(schema, members[i].name);
      if (field != nullptr) {
        append(members[i].value, *field);
      } else {
        append_unknown(members[i], schema);
      }
    }
    out_ += '}';
  }

  void append_unknown(const JsonMember& member, const Schema& schema) {
    std::string text;
    append_json(text, member.value);
    const bool secret =
        guard_ != nullptr || names_secret(schema, member.name) || names_secret(schema, text);
    if (secret && may_tell(member.value)) return mask();
    out_ += text;
  }

  // Where no list is expected, each item is taken for what is.
  void append_array(const Json::Array& items, const Schema& schema) {
    const bool listed = schema.kind == SchemaKind::list;
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out_ += ',';
      if (guard_ != nullptr && !listed && items[i].string() != nullptr) {
        mask();
      } else {
        append(items[i], listed ? *schema.item : schema);
      }
    }
    out_ += ']';
  }

  std::string& out_;
  const Schema* guard_;
};

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
  Echo echo(out, error.guard);
  if (error.schema == nullptr) {
    append_json(out, *error.input);
  } else if (error.schema->guarded && error.location.size() == 1 && error.input->string()) {
    echo.mask();  // a whole body that was to be the structure
  } else {
    echo.append(*error.input, *error.schema);
  }
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
