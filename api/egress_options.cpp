#include "api/egress_options.hpp"

#include <utility>

namespace daiv::api {
namespace {

const std::string* text_of(const Json& object, std::string_view name) {
  const Json* value = object.find(name);
  return value == nullptr ? nullptr : value->string();
}

bool is(const Json& object, std::string_view name, std::string_view expected) {
  const std::string* text = text_of(object, name);
  return text != nullptr && *text == expected;
}

sessions::EgressRule rule_of(const Json& object) {
  sessions::EgressRule rule;
  rule.host = *text_of(object, "host");
  if (const Json* methods = object.find("methods"))
    for (const Json& method : *methods->array()) rule.methods.push_back(*method.string());
  if (const std::string* name = text_of(object, "inject")) rule.inject = *name;
  return rule;
}

}  // namespace

sessions::EgressPolicy egress_policy(const Json& block) {
  sessions::EgressPolicy policy;
  if (const Json* rules = block.find("policy")) {
    if (is(*rules, "default", "allow")) policy.fallback = sessions::EgressDefault::allow;
    if (is(*rules, "intercept", "all")) policy.intercept = sessions::EgressIntercept::all;
    if (const Json* list = rules->find("rules"))
      for (const Json& rule : *list->array()) policy.rules.push_back(rule_of(rule));
  }
  if (const Json* secrets = block.find("secrets"))
    for (const JsonMember& secret : *secrets->object())
      policy.secrets.insert_or_assign(secret.name,
                                      sessions::EgressSecret{*text_of(secret.value, "header"),
                                                             *text_of(secret.value, "value")});
  return policy;
}

}  // namespace daiv::api
