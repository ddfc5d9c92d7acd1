#pragma once

#include <string_view>

namespace daiv::os {

// A named moment at which a test build (-Dattack_switches=true) can die, to show that what is on
// disk and in the kernel agrees after a crash there: it kills the calling process with SIGKILL
// where DAIV_SANDBOX_CRASH_AT is `name`; where that is "<name>:parent", the parent of the calling
// process, which itself goes on. In every other build it does nothing and reads nothing.
void crash_point(std::string_view name) noexcept;

}  // namespace daiv::os
