#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

namespace daiv::images::unpack {

// Thrown to whoever waits on a ring that was cancelled.
struct RingCancelled {};

// A ring of blocks between the thread that decompresses and the two that read what came out, the
// hasher and the writer: both see every block, where it lies. A block is reused when both are past
// it.
class BlockRing {
public:
  enum class Reader : std::uint8_t { hasher, writer };

  BlockRing(std::size_t blocks, std::size_t block_bytes);

  // For the producer. The next block to fill; waits until it is free. Throws RingCancelled.
  std::span<std::byte> begin_block();
  void finish_block(std::size_t bytes);
  // No more blocks; with an error, readers throw it when they have read what came before.
  void finish(std::exception_ptr error = nullptr);

  // For a reader. Gives back the block of the call before and waits for the next; empty at the end.
  // Throws the producer's error or RingCancelled.
  std::span<const std::byte> next_block(Reader reader);

  // Wakes everybody with RingCancelled.
  void cancel();

private:
  struct Position {
    std::uint64_t released = 0;
    bool holds_block = false;
  };

  [[nodiscard]] std::uint64_t oldest_needed() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t block_bytes_;
  std::vector<std::byte> memory_;
  std::vector<std::size_t> filled_;
  std::uint64_t produced_ = 0;
  std::array<Position, 2> readers_;
  std::exception_ptr error_;
  bool finished_ = false;
  bool cancelled_ = false;
};

}  // namespace daiv::images::unpack
