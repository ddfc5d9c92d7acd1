#include "os/allocator.hpp"

#include <malloc.h>

namespace daiv::os {

void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc itself comes to (mallopt(3))
  ::mallopt(M_TRIM_THRESHOLD, 32 << 20);
  ::mallopt(M_ARENA_MAX, 4);  // each keeps its own, and a thread finds only what its own one has
}

}  // namespace daiv::os
