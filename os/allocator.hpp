#pragma once

namespace daiv::os {

// Lets this process keep memory that it has freed, up to some tens of megabytes, for what it
// allocates next (mallopt(3)). For one through which bodies of some hundred kilobytes pass: given
// back with each of them, memory is faulted in again by the next, page by page, which was half of
// what a write of 500 kB cost where the host is a virtual machine itself.
void keep_freed_memory();

}  // namespace daiv::os
