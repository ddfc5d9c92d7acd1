#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace daiv::images {

// One challenge of a WWW-Authenticate field (RFC 9110 §11.6.1). Parameters are empty where they are
// missing.
struct AuthChallenge {
  std::string scheme;  // lower case: "bearer", "basic"
  std::string realm;
  std::string service;
  std::string scope;

  friend bool operator==(const AuthChallenge&, const AuthChallenge&) = default;
};

// The challenges of all WWW-Authenticate fields of one response, in their order. Forgiving: case,
// blanks, extra or missing commas, unknown parameters and token68 values don't matter; what can't
// be understood is skipped. At most max_challenges come back.
inline constexpr std::size_t max_challenges = 8;
std::vector<AuthChallenge> parse_challenges(const std::vector<std::string>& fields);

}  // namespace daiv::images
