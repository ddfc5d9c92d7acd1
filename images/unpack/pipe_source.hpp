#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "os/unique_fd.hpp"

namespace daiv::images::unpack {

// Reads the layer's bytes from a pipe into one buffer that decompressors look into. For one thread,
// but cancel().
class PipeSource {
public:
  // Keeps a reference to `input`. Makes the pipe as large as the kernel lets it (F_SETPIPE_SZ).
  explicit PipeSource(const os::UniqueFd& input);

  // What is buffered and not consumed.
  [[nodiscard]] std::span<const std::byte> buffered() const noexcept {
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  void consume(std::size_t count) noexcept { begin_ += count; }

  // Reads more into the buffer. False at the end of the input. Throws os::Error; ECANCELED after
  // cancel().
  bool read_more();
  // Reads until `count` bytes are buffered or the input ends. At most the buffer's size.
  std::span<const std::byte> peek(std::size_t count);
  // Reads straight into `out` what is not buffered; 0 at the end.
  std::size_t read_into(std::span<std::byte> out);

  // From any thread: ends a read that waits, now or later.
  void cancel();

private:
  void wait_readable();

  const os::UniqueFd& input_;
  os::UniqueFd cancelled_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace daiv::images::unpack
