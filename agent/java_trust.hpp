#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::agent {

// Adds `certificate` (DER) to the key stores of trusted certificates that the image's Java reads,
// as java_store.hpp says: those of Debian, Alpine, Arch, Fedora and SUSE, and lib/security/cacerts
// of JAVA_HOME in `environment` and of each Java in the usual directories. A store that can't be
// changed (StoreProblem, or above 16 MiB) stays as it is. Otherwise as install_trust(), below
// `root`.
void install_java_trust(const os::UniqueFd& root, std::string_view certificate,
                        const std::vector<std::string>& environment);

}  // namespace daiv::agent
