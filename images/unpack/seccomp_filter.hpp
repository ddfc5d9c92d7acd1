#pragma once

namespace daiv::images::unpack {

// Loads the unpacker's allowlist for this thread and those it starts (seccomp(2)). What is not in
// it fails with EPERM; clone3 with ENOSYS, so that glibc starts threads with clone(2), whose flags
// a filter can see. Needs no_new_privs. Throws os::Error.
void load_seccomp_filter();

}  // namespace daiv::images::unpack
