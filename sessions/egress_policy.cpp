#include "sessions/egress_policy.hpp"

#include <utility>

#include "wire/codec.hpp"

namespace daiv::sessions {
namespace {

constexpr std::uint32_t max_items = 1U << 16;
constexpr std::uint8_t version = 1;

std::uint32_t read_count(wire::Reader& in) {
  const std::uint32_t count = in.u32();
  if (count > max_items) throw wire::DecodeError("number of items");
  return count;
}

EgressRule read_rule(wire::Reader& in) {
  EgressRule rule;
  rule.host = std::string(in.text());
  rule.methods = in.texts(max_items);
  if (in.boolean()) rule.inject = std::string(in.text());
  return rule;
}

}  // namespace

std::string encode(const EgressPolicy& policy) {
  wire::Writer out;
  out.u8(version).boolean(policy.fallback == EgressDefault::allow);
  out.boolean(policy.intercept == EgressIntercept::all);
  out.u32(static_cast<std::uint32_t>(policy.rules.size()));
  for (const EgressRule& rule : policy.rules) {
    out.text(rule.host).texts(rule.methods).boolean(rule.inject.has_value());
    if (rule.inject) out.text(*rule.inject);
  }
  out.u32(static_cast<std::uint32_t>(policy.secrets.size()));
  for (const auto& [name, secret] : policy.secrets)
    out.text(name).text(secret.header).text(secret.value);
  return out.take();
}

EgressPolicy decode_egress_policy(std::string_view bytes) {
  wire::Reader in(bytes);
  if (in.u8() != version) throw wire::DecodeError("version");
  EgressPolicy policy;
  policy.fallback = in.boolean() ? EgressDefault::allow : EgressDefault::deny;
  policy.intercept = in.boolean() ? EgressIntercept::all : EgressIntercept::credentialed;
  for (std::uint32_t left = read_count(in); left > 0; --left) policy.rules.push_back(read_rule(in));
  for (std::uint32_t left = read_count(in); left > 0; --left) {
    std::string name(in.text());
    EgressSecret secret;
    secret.header = std::string(in.text());
    secret.value = std::string(in.text());
    policy.secrets.insert_or_assign(std::move(name), std::move(secret));
  }
  in.finish();
  return policy;
}

}  // namespace daiv::sessions
