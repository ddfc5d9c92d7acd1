#pragma once

#include <string>
#include <string_view>

#include "os/unique_fd.hpp"

// Files without a name that nobody can change (memfd_create(2), fcntl(2) F_ADD_SEALS).
namespace daiv::os {

enum class MemfdUse { data, program };

// A memfd with these bytes, sealed against every change, seals included, read from its start;
// close-on-exec. A `program` has mode 0111: who executes it without owning it can't read it, so the
// kernel makes the process non-dumpable. Throws os::Error.
UniqueFd make_sealed_memfd(const std::string& name, std::string_view bytes,
                           MemfdUse use = MemfdUse::data);

// Whether no write, no change of size and no further seal is possible.
bool is_sealed(const UniqueFd& fd);

}  // namespace daiv::os
