#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace daiv::images::unpack {

class PipeSource;

// Gives the uncompressed bytes of a layer. The whole stream counts: every member or frame to the
// end of the input.
class Decompressor {
public:
  virtual ~Decompressor() = default;
  // Fills `out`; less only at the end, 0 after it. Throws UnpackError{corrupt} for bytes that are
  // not what they began as: cut off, wrong checksum, something else behind the end. Throws
  // os::Error where reading fails.
  virtual std::size_t read(std::span<std::byte> out) = 0;
};

// Decides by the first bytes alone, since media types lie: gzip, zstd (with skippable frames), or a
// tar as it is. What is known but not taken (bzip2, xz, lz4) is UnpackError{corrupt} with its name.
// Keeps a reference to `source`.
std::unique_ptr<Decompressor> open_decompressor(PipeSource& source);

// The single ones; keep a reference to `source`.
std::unique_ptr<Decompressor> make_gzip_decompressor(PipeSource& source);
std::unique_ptr<Decompressor> make_zstd_decompressor(PipeSource& source);

}  // namespace daiv::images::unpack
