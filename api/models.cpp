#include "api/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "sessions/fs_messages.hpp"
#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

bool has_space_or_control(std::string_view text) {
  static constexpr std::array<std::string_view, 20> wide{
      "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
      "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
      "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
      "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80", "\x7f"};
  const auto control = [](char c) { return static_cast<unsigned char>(c) <= 0x20; };
  return std::any_of(text.begin(), text.end(), control) ||
         std::any_of(wide.begin(), wide.end(),
                     [text](std::string_view space) { return text.contains(space); });
}

std::optional<std::string> check_host(const Json& value) {
  if (!value.string()->empty() && !has_space_or_control(*value.string())) return std::nullopt;
  return "host must be a non-empty glob without whitespace or control characters";
}

std::optional<std::string> check_methods(const Json& value) {
  if (!value.array()->empty()) return std::nullopt;
  return "methods must not be empty; use ['*'] to allow all methods";
}

std::optional<std::string> check_header_name(const Json& value) {
  const std::string& name = *value.string();
  if (wire::is_token(name)) return std::nullopt;
  return sessions::fs::python_repr(name) + " is not a valid HTTP header name (RFC 7230 token)";
}

std::optional<std::string> check_header_value(const Json& value) {
  if (value.string()->find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos)
    return std::nullopt;
  return "header value must not contain control characters (CR, LF, NUL)";
}

std::optional<std::string> check_egress(const Json& value) {
  const Json* policy = value.find("policy");
  const Json* fallback = policy == nullptr ? nullptr : policy->find("default");
  const bool allows = fallback != nullptr && *fallback->string() == "allow";
  const Json* rules = policy == nullptr ? nullptr : policy->find("rules");
  if (!allows && (rules == nullptr || rules->array()->empty()))
    return "egress policy permits nothing: a deny-default policy needs at least one rule (omit "
           "`egress` for a "
           "network-isolated sandbox, or set policy.default='allow')";
  if (rules == nullptr) return std::nullopt;
  const Json* secrets = value.find("secrets");
  for (const Json& rule : *rules->array()) {
    const Json* inject = rule.find("inject");
    if (inject == nullptr || inject->is_null()) continue;
    if (secrets != nullptr && secrets->find(*inject->string()) != nullptr) continue;
    return fmt::format("rule for host {} references unknown secret {}",
                       sessions::fs::python_repr(*rule.find("host")->string()),
                       sessions::fs::python_repr(*inject->string()));
  }
  return std::nullopt;
}

std::optional<std::string> check_command(const Json& value) {
  if (!value.string()->contains('\0')) return std::nullopt;
  return "command must not contain NUL characters";
}

// How many commands one request may have is bounded by the size of its body alone.
const Schema text{.kind = SchemaKind::text};
const Schema command{.kind = SchemaKind::text, .rule = check_command};
const Schema boolean{.kind = SchemaKind::boolean};
const Schema text_list{.kind = SchemaKind::list, .item = &text};
const Schema optional_text{.kind = SchemaKind::text, .nullable = true};

constexpr std::array<std::string_view, 2> policy_defaults{"deny", "allow"};
constexpr std::array<std::string_view, 2> intercept_modes{"all", "credentialed"};

const std::array egress_secret_fields{
    SchemaField{"header", {.kind = SchemaKind::text, .rule = check_header_name}, true},
    SchemaField{"value", {.kind = SchemaKind::secret, .rule = check_header_value}, true},
};
const Schema egress_secret{
    .kind = SchemaKind::model, .fields = egress_secret_fields, .name = "EgressSecret"};

const std::array egress_rule_fields{
    SchemaField{"host", {.kind = SchemaKind::text, .rule = check_host}, true},
    SchemaField{"methods", {.kind = SchemaKind::list, .item = &text, .rule = check_methods}},
    SchemaField{"inject", optional_text},
};
const Schema egress_rule{
    .kind = SchemaKind::model, .fields = egress_rule_fields, .name = "EgressRule"};

const std::array egress_policy_fields{
    SchemaField{"default", {.kind = SchemaKind::choice, .choices = policy_defaults}},
    SchemaField{"intercept", {.kind = SchemaKind::choice, .choices = intercept_modes}},
    SchemaField{"rules", {.kind = SchemaKind::list, .item = &egress_rule}},
};

const std::array egress_fields{
    SchemaField{
        "policy",
        {.kind = SchemaKind::model, .fields = egress_policy_fields, .name = "EgressPolicy"}},
    SchemaField{"secrets", {.kind = SchemaKind::dictionary, .item = &egress_secret}},
};

std::array<SchemaField, 5> make_start_session_fields() {
  const std::int64_t max_cpus =
      max_cpu_factor * std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  Schema egress = egress_model();
  egress.nullable = true;
  return {
      SchemaField{"base_image", text, true},
      SchemaField{"egress", egress},
      SchemaField{"environment", {.kind = SchemaKind::dictionary, .nullable = true, .item = &text}},
      SchemaField{"memory_bytes", {.kind = SchemaKind::integer, .nullable = true}},
      SchemaField{
          "cpus",
          {.kind = SchemaKind::number, .nullable = true, .minimum = 0, .maximum = max_cpus}},
  };
}

const std::array run_fields{
    SchemaField{"commands", {.kind = SchemaKind::list, .item = &command}, true},
    SchemaField{"fail_fast", boolean},
    SchemaField{"timeout", {.kind = SchemaKind::integer, .nullable = true, .minimum = 0}},
};
const std::array path_fields{SchemaField{"path", text, true}};
const std::array read_fields{
    SchemaField{"path", text, true},
    SchemaField{"offset", {.kind = SchemaKind::integer, .minimum = 0}},
    SchemaField{"limit", {.kind = SchemaKind::integer, .minimum = 1}},
};
const std::array grep_fields{
    SchemaField{"pattern", text, true},
    SchemaField{"path", text, true},
    SchemaField{"glob", optional_text},
    SchemaField{"exclude", text_list},
};
const std::array glob_fields{
    SchemaField{"pattern", text, true},
    SchemaField{"path", text, true},
    SchemaField{"exclude", text_list},
};
const std::array write_fields{
    SchemaField{"path", text, true},
    SchemaField{"content", {.kind = SchemaKind::base64}, true},
    SchemaField{"mode", {.kind = SchemaKind::integer, .minimum = 0, .maximum = 07777}},
};
const std::array edit_fields{
    SchemaField{"path", text, true},
    SchemaField{"old", text, true},
    SchemaField{"new", text, true},
    SchemaField{"replace_all", boolean},
};

Schema model(std::string_view name, std::span<const SchemaField> fields) {
  return {.kind = SchemaKind::model, .fields = fields, .name = name};
}

}  // namespace

const Schema& egress_model() {
  static const Schema schema{.kind = SchemaKind::model,
                             .fields = egress_fields,
                             .rule = check_egress,
                             .name = "EgressConfigRequest",
                             .guarded = true};
  return schema;
}

const Schema& start_session_model() {
  static const std::array<SchemaField, 5> fields = make_start_session_fields();
  static const Schema schema = model("StartSessionRequest", fields);
  return schema;
}

const Schema& run_model() {
  static const Schema schema = model("RunRequest", run_fields);
  return schema;
}
const Schema& fs_ls_model() {
  static const Schema schema = model("FsLsRequest", path_fields);
  return schema;
}
const Schema& fs_read_model() {
  static const Schema schema = model("FsReadRequest", read_fields);
  return schema;
}
const Schema& fs_grep_model() {
  static const Schema schema = model("FsGrepRequest", grep_fields);
  return schema;
}
const Schema& fs_glob_model() {
  static const Schema schema = model("FsGlobRequest", glob_fields);
  return schema;
}
const Schema& fs_write_model() {
  static const Schema schema = model("FsWriteRequest", write_fields);
  return schema;
}
const Schema& fs_edit_model() {
  static const Schema schema = model("FsEditRequest", edit_fields);
  return schema;
}
const Schema& fs_delete_model() {
  static const Schema schema = model("FsDeleteRequest", path_fields);
  return schema;
}

}  // namespace daiv::api
