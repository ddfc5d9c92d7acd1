#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "os/unique_fd.hpp"

namespace daiv::os {

// All of a file that nobody shrinks meanwhile, to be read (mmap(2)): what is missing of a page that
// was there is a SIGBUS. A page that nobody looks at costs nothing.
class FileMapping {
public:
  // Throws os::Error; EFBIG above `max_bytes`.
  FileMapping(const UniqueFd& file, std::size_t max_bytes);
  FileMapping(FileMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  FileMapping& operator=(FileMapping&&) = delete;
  ~FileMapping();

  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }

private:
  std::string_view bytes_;
};

}  // namespace daiv::os
