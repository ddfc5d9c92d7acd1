#include "proxy/policy.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "wire/ascii.hpp"

namespace daiv::proxy {
namespace {

const Secret* secret_of(const Policy& policy, const Rule& rule) {
  if (!rule.inject) return nullptr;
  const auto found = policy.secrets.find(*rule.inject);
  return found == policy.secrets.end() ? nullptr : &found->second;
}

}  // namespace

// Methods compare without regard to case here, although RFC 9110 §9.1 has them case-sensitive: a
// rule for GET must not be got round by "get" where an origin takes both.
bool Rule::allows(std::string_view method) const {
  return methods.empty() || std::ranges::any_of(methods, [&](const auto& listed) {
           return wire::equal_ignoring_case(listed, method);
         });
}

ConnectVerdict judge_connect(const Policy& policy, const HostName& host, std::uint16_t port) {
  const auto rule = std::ranges::find_if(
      policy.rules, [&](const auto& candidate) { return candidate.host.matches(host, port); });
  if (rule == policy.rules.end()) {
    if (policy.fallback == Default::deny) return {};
    return {true, policy.intercept == Intercept::all, Reason::default_allow, nullptr};
  }
  const bool needs_look = rule->inject.has_value() || !rule->methods.empty();
  return {true, policy.intercept == Intercept::all || needs_look, Reason::rule, &*rule};
}

RequestVerdict judge_request(const Policy& policy, const HostName& host, std::uint16_t port,
                             std::string_view method) {
  bool listed = false;
  for (const auto& rule : policy.rules) {
    if (!rule.host.matches(host, port)) continue;
    if (rule.allows(method)) {
      const Secret* secret = secret_of(policy, rule);
      // A rule whose secret is not there must not send the request without it: the API refuses such
      // policies, and a policy that came another way fails closed.
      if (rule.inject && secret == nullptr) return {};
      return {true, Reason::rule, &rule, secret};
    }
    listed = true;
  }
  if (listed) return {false, Reason::method_not_listed, nullptr, nullptr};
  if (policy.fallback == Default::deny) return {};
  return {true, Reason::default_allow, nullptr, nullptr};
}

std::string describe(Reason reason, const HostName& host, std::string_view method) {
  switch (reason) {
    case Reason::rule:
      return fmt::format("a rule lists {}", host.text());
    case Reason::default_allow:
      return "allowed by default";
    case Reason::host_not_listed:
      return fmt::format("no rule lists {}", host.text());
    case Reason::method_not_listed:
      return fmt::format("no rule for {} lists the method {}", host.text(), method);
  }
  return {};
}

}  // namespace daiv::proxy
