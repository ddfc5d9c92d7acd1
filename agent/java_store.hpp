#pragma once

#include <expected>
#include <string>
#include <string_view>

// The certificate of the egress CA in a key store of Java ("cacerts"): JKS, or PKCS #12 as JDK 18
// and later write it, without a password or with one (JDK-8076190). Only the alias below is ours;
// all other entries and the password stay as they are, byte for byte.
namespace daiv::agent {

inline constexpr std::string_view java_alias = "daiv-egress";
// What every distribution seals its store with; keytool(1) names it as the default.
inline constexpr std::string_view java_password = "changeit";

enum class StoreProblem {
  unknown_format,  // neither JKS nor PKCS #12 in DER: JCEKS, BKS, FIPS providers' own
  malformed,
  other_password,  // its seal is not java_password's, so it can't be sealed anew
};

// `store` with `certificate` (DER, not empty) as a trusted one; the same bytes where it is there
// already. The certificate that an earlier call put there is taken out. Bounded by the size of
// `store`, but for a PKCS #12 seal: that many rounds of a digest, at most a few ten milliseconds.
std::expected<std::string, StoreProblem> with_java_certificate(std::string_view store,
                                                               std::string_view certificate);

}  // namespace daiv::agent
