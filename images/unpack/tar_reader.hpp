#pragma once

#include <memory>

#include "images/unpack/block_ring.hpp"
#include "images/unpack/tar_entry.hpp"

namespace daiv::images::unpack {

// Reads a tar (v7, ustar, GNU, PAX, with their long names, big numbers and sparse files) from the
// blocks of a ring with libarchive. Names come out byte by byte as they are in the tar, whatever
// encoding they have; libarchive has no more than the ring's bytes, so nothing of it opens a file.
// One thread. Everything throws UnpackError{corrupt}, or what the ring throws.
class TarReader final : public EntryData {
public:
  // Keeps a reference to `ring`.
  explicit TarReader(BlockRing& ring);
  ~TarReader() override;
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;

  // The next entry; null at the end of the tar. It stays valid until the next call.
  const TarEntry* next_entry();
  std::optional<DataBlock> next_block() override;

  // Reads what follows the tar's end, so that the hasher sees it all.
  void drain();

private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
};

}  // namespace daiv::images::unpack
