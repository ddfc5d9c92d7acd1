#include "os/file_mapping.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "os/error.hpp"

namespace daiv::os {

FileMapping::FileMapping(const UniqueFd& file, std::size_t max_bytes) {
  struct stat status{};
  check(::fstat(file.get(), &status), "fstat", "mapped file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > max_bytes) throw Error(EFBIG, "mmap", "file");
  if (size == 0) return;  // mmap(2) refuses it
  const void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) throw_errno("mmap", "file");
  bytes_ = {static_cast<const char*>(address), size};
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace daiv::os
