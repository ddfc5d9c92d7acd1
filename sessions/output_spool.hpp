#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "os/unique_fd.hpp"
#include "sessions/session_service.hpp"

namespace daiv::sessions {

// A command's output while it grows and afterwards: up to memory_bytes in memory, then all of it in
// an unlinked file of `directory`, so that the daemon's memory does not depend on what commands
// print.
class OutputSpool : public Output {
public:
  static constexpr std::size_t memory_bytes = 256U << 10;

  explicit OutputSpool(std::string directory) : directory_(std::move(directory)) {}

  // True where append(`more` bytes) would write to a file and so belongs on the pool.
  [[nodiscard]] bool append_blocks(std::size_t more) const;
  // Throws os::Error, ENOSPC for one.
  void append(std::string_view bytes);
  // '\0' where nothing was written.
  [[nodiscard]] char last() const noexcept { return last_; }

  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] std::string read(std::uint64_t offset, std::size_t max) const override;

private:
  std::string directory_;
  std::string memory_;
  os::UniqueFd file_;
  std::uint64_t size_ = 0;
  char last_ = '\0';
};

}  // namespace daiv::sessions
