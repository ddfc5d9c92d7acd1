#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "agent/java_store.hpp"

// JKS, the key store of JDK 1.2 to 17 (sun.security.provider.JavaKeyStore of OpenJDK says what is
// in it): big-endian numbers, entries one after another, and a digest over it all with the
// password.
namespace daiv::agent {

bool is_jks(std::string_view store);

// As with_java_certificate(). Throws wire::DecodeError where it is malformed.
std::expected<std::string, StoreProblem> jks_with_certificate(std::string_view store,
                                                              std::string_view certificate);

// The 20 bytes that follow `entries` (all before them) in a store with java_password.
std::string jks_seal(std::string_view entries);

}  // namespace daiv::agent
