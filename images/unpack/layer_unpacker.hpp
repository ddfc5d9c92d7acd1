#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "images/unpack/layer_writer.hpp"
#include "images/unpack/unpack_error.hpp"
#include "os/unique_fd.hpp"

namespace daiv::images::unpack {

struct Limits {
  std::uint64_t max_bytes = 0;    // of the uncompressed tar; 0: none
  std::uint64_t max_entries = 0;  // 0: none
};

// How an unpack ended.
struct Result {
  Status status = Status::internal;
  std::string message;  // empty for ok
  std::string diff_id;  // "sha256:…" of the whole uncompressed stream; for ok and needs_parents
  std::uint64_t unpacked_bytes = 0;
  std::uint64_t entries = 0;
  bool hides_below = false;  // an opaque whiteout at the layer's root
};

// The record of a result on the wire (wire/codec.hpp): u8 status, text message, text diffID, u64
// bytes, u64 entries, boolean hides_below.
std::string encode(const Result& result);
// Throws wire::DecodeError.
Result decode_result(std::string_view bytes);

// Unpacks one layer with three threads: one reads and decompresses, one hashes, the caller's
// writes. Libraries are loaded and set up by the constructor, before the process confines itself:
// later their files would be the image's (CVE-2019-14271).
class LayerUnpacker {
public:
  LayerUnpacker();
  ~LayerUnpacker();
  LayerUnpacker(const LayerUnpacker&) = delete;
  LayerUnpacker& operator=(const LayerUnpacker&) = delete;

  // From `input` into the place; once. Never throws: what goes wrong is in the result.
  Result run(const os::UniqueFd& input, const Place& place, const Limits& limits) noexcept;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::images::unpack
