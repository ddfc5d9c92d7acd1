#pragma once

#include "os/unique_fd.hpp"

namespace daiv::images::unpack {

// Takes from this process, which is root of a user namespace with mount, pid, net and ipc
// namespaces of its own, all that writing a layer's files does not need, and checks each step
// (design: no foreign byte is parsed with privilege):
// - descriptors: none but `input`, `result`, `layer`, `parents` if there is one, and three of
// /dev/null;
// - file system: an empty read-only tmpfs is the namespace's root, `layer` the process's; `parents`
// must be read only and the root of a mount with nothing above it;
// - limits: no core, 2 GiB of memory, 4,096 descriptors;
// - capabilities: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP alone, the bounding set too;
// no_new_privs;
// - seccomp: files, memory and threads; no new process, program, socket, mount or executable
// memory. Call it with one thread. Throws os::Error where a step fails or does not show when looked
// for; the process must not go on then.
void confine(const os::UniqueFd& input, const os::UniqueFd& result, const os::UniqueFd& layer,
             const os::UniqueFd& parents);

}  // namespace daiv::images::unpack
