#include <algorithm>
#include <cstring>

#include "images/unpack/block_ring.hpp"
#include "images/unpack/entry_policy.hpp"
#include "images/unpack/tar_reader.hpp"
#include "images/unpack/unpack_error.hpp"
#include "images/unpack/whiteout.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace daiv;
using namespace daiv::images::unpack;

constexpr std::size_t block_bytes = 16U << 10;
constexpr std::size_t blocks = 16;

// No place in a layer leads out of it, whatever the archive calls it.
void check_place(std::string_view raw) {
  const auto path = plan_entry_path(raw);
  if (!path) return;
  const std::string place = path->string();
  fuzz::require(place.empty() || place.front() != '/');
  fuzz::require(place.find('\0') == std::string::npos);
  for (const std::string_view part : split_path(place)) fuzz::require(part != "..");
  const auto whiteout = classify_whiteout(*path);
  if (!whiteout || whiteout->kind != WhiteoutKind::removes) return;
  fuzz::require(!whiteout->target.empty() && whiteout->target != "." && whiteout->target != "..");
  fuzz::require(whiteout->target.find('/') == std::string::npos);
}

// The whole archive lies in the ring before it is read: one thread is enough.
void fill(BlockRing& ring, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto block = ring.begin_block();
    const std::size_t count = std::min(block.size(), bytes.size());
    std::memcpy(block.data(), bytes.data(), count);
    ring.finish_block(count);
    bytes.remove_prefix(count);
  }
  ring.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  if (size > block_bytes * (blocks - 1)) return 0;
  check_place(bytes);
  BlockRing ring(blocks, block_bytes);
  fill(ring, bytes);
  try {
    TarReader reader(ring);
    while (const TarEntry* entry = reader.next_entry()) {
      check_place(entry->path);
      check_place(entry->link);
      for (int pieces = 0; pieces < 1000 && reader.next_block(); ++pieces) {
      }
    }
  } catch (const UnpackError&) {
    return 0;  // the answer to what is no tar
  }
  return 0;
}
