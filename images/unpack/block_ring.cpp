#include "images/unpack/block_ring.hpp"

#include <algorithm>
#include <utility>

namespace daiv::images::unpack {

BlockRing::BlockRing(std::size_t blocks, std::size_t block_bytes)
    : block_bytes_(block_bytes), memory_(blocks * block_bytes), filled_(blocks) {}

std::uint64_t BlockRing::oldest_needed() const {
  return std::min(readers_[0].released, readers_[1].released);
}

std::span<std::byte> BlockRing::begin_block() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cancelled_ || produced_ - oldest_needed() < filled_.size(); });
  if (cancelled_) throw RingCancelled{};
  return std::span(memory_).subspan((produced_ % filled_.size()) * block_bytes_, block_bytes_);
}

void BlockRing::finish_block(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    filled_[produced_ % filled_.size()] = bytes;
    ++produced_;
  }
  changed_.notify_all();
}

void BlockRing::finish(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    error_ = std::move(error);
  }
  changed_.notify_all();
}

std::span<const std::byte> BlockRing::next_block(Reader reader) {
  Position& position = readers_.at(static_cast<std::size_t>(reader));
  std::unique_lock lock(mutex_);
  if (std::exchange(position.holds_block, false)) {
    ++position.released;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return cancelled_ || finished_ || produced_ > position.released; });
  if (cancelled_) throw RingCancelled{};
  if (produced_ == position.released) {
    if (error_) std::rethrow_exception(error_);
    return {};
  }
  position.holds_block = true;
  const std::size_t index = position.released % filled_.size();
  return std::span<const std::byte>(memory_).subspan(index * block_bytes_, filled_[index]);
}

void BlockRing::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

}  // namespace daiv::images::unpack
