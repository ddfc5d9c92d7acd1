#pragma once

#include <string>
#include <string_view>

#include "os/unique_fd.hpp"

namespace daiv::os {

// An anonymous file that holds `content` for ever: sealed against writing, growing, shrinking and unsealing
// (memfd_create(2), fcntl(2) F_ADD_SEALS), read from its start. Close-on-exec. Throws os::Error.
UniqueFd make_sealed_memfd(const std::string& name, std::string_view content);

}  // namespace daiv::os
