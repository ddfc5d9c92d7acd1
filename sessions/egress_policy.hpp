#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a client asks of a session's egress, as plain values: the API makes them of a request, the
// proxy takes them over, and a file keeps them over a restart of the daemon.
namespace daiv::sessions {

enum class EgressDefault { deny, allow };
enum class EgressIntercept { all, credentialed };

struct EgressRule {
  std::string host;                   // a glob
  std::vector<std::string> methods;   // "*" among them, or none at all: every method
  std::optional<std::string> inject;  // name of a secret

  friend bool operator==(const EgressRule&, const EgressRule&) = default;
};

struct EgressSecret {
  std::string header;
  std::string value;

  friend bool operator==(const EgressSecret&, const EgressSecret&) = default;
};

// As it is made here it denies everything.
struct EgressPolicy {
  EgressDefault fallback = EgressDefault::deny;
  EgressIntercept intercept = EgressIntercept::credentialed;
  std::vector<EgressRule> rules;
  std::map<std::string, EgressSecret> secrets;

  friend bool operator==(const EgressPolicy&, const EgressPolicy&) = default;
};

std::string encode(const EgressPolicy& policy);
// Throws wire::DecodeError for anything that is not exactly one policy.
EgressPolicy decode_egress_policy(std::string_view bytes);

}  // namespace daiv::sessions
