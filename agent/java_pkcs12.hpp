#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "agent/java_store.hpp"

// PKCS #12 (RFC 7292) as a store of trusted certificates. What is there is never decrypted: ours
// goes into a safe of its own beside the others, unencrypted, and the seal (MacData), where there
// is one, is made anew with the same salt and rounds.
namespace daiv::agent {

bool is_pkcs12(std::string_view store);

// As with_java_certificate(). Throws wire::DecodeError where it is malformed.
std::expected<std::string, StoreProblem> pkcs12_with_certificate(std::string_view store,
                                                                 std::string_view certificate);

}  // namespace daiv::agent
