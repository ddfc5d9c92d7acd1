#include "os/memfd.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::os {
namespace {

constexpr int all_seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
// Linux 6.3 (memfd_create(2)); the headers of Debian 12 don't have them.
constexpr unsigned memfd_noexec_seal = 0x8;
constexpr unsigned memfd_exec = 0x10;

// Before 6.3 the flags for execution are unknown, and every memfd may be executed.
UniqueFd create_memfd(const std::string& name, unsigned flags, unsigned execution) {
  int fd = ::memfd_create(name.c_str(), flags | execution);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create(name.c_str(), flags);
  return UniqueFd(check(fd, "memfd_create", name));
}

}  // namespace

UniqueFd make_sealed_memfd(const std::string& name, std::string_view bytes, MemfdUse use) {
  const bool program = use == MemfdUse::program;
  UniqueFd fd =
      create_memfd(name, MFD_CLOEXEC | MFD_ALLOW_SEALING, program ? memfd_exec : memfd_noexec_seal);
  write_full(fd, bytes);
  check(::fchmod(fd.get(), program ? 0111 : 0444), "fchmod", name);
  check(::fcntl(fd.get(), F_ADD_SEALS, all_seals), "fcntl F_ADD_SEALS", name);
  check(::lseek(fd.get(), 0, SEEK_SET), "lseek", name);
  return fd;
}

bool is_sealed(const UniqueFd& fd) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  return seals >= 0 && (seals & all_seals) == all_seals;
}

}  // namespace daiv::os
