#pragma once

#include <chrono>

#include "runtime/broker_protocol.hpp"

namespace daiv::runtime {

// Runs `docker-credential-<helper> get` with the server on its standard input, as a user with no
// rights of its own and without children that outlive it. Answers Credential with what it printed,
// not_found where there is no such program, or Failed with its exit. It may print 16 KiB and
// take as long as the limit; what is left of it then is killed. Throws os::Error.
inline constexpr std::chrono::milliseconds credential_helper_limit{30'000};
Answer run_credential_helper(const RunCredentialHelper& request,
                             std::chrono::milliseconds limit = credential_helper_limit);

}  // namespace daiv::runtime
