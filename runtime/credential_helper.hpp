#pragma once

#include "runtime/broker_protocol.hpp"

namespace daiv::runtime {

// Runs `docker-credential-<helper> get` with the server on its standard input, as a user with no
// rights of its own and without children that outlive it. Answers Credential with what it printed,
// not_found where there is no such program, or Failed with its exit. It may take 30 seconds and
// print 16 KiB. Throws os::Error.
Answer run_credential_helper(const RunCredentialHelper& request);

}  // namespace daiv::runtime
