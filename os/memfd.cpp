#include "os/memfd.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::os {

UniqueFd make_sealed_memfd(const std::string& name, std::string_view content) {
  UniqueFd file(check(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING), "memfd_create", name));
  write_full(file, content);
  check(::lseek(file.get(), 0, SEEK_SET), "lseek", name);
  constexpr int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  check(::fcntl(file.get(), F_ADD_SEALS, seals), "fcntl F_ADD_SEALS", name);
  return file;
}

}  // namespace daiv::os
