#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace daiv::sessions {

inline constexpr std::uint32_t uids_per_range = 65536;

// Gives every session a range of 65,536 host uids of its own. Range 0 holds the stored layers and
// is never given. A range that came back is used again as late as possible: its old files may still
// be on their way to deletion.
class UidRanges {
public:
  // `count` ranges from uid `start`, the layers' range among them.
  UidRanges(std::uint32_t start, std::uint32_t count);

  // The first uid of a free range; empty where all are taken.
  std::optional<std::uint32_t> take();
  // Marks the range of a known session; false where it is taken or not one of ours.
  bool claim(std::uint32_t base);
  void give_back(std::uint32_t base);

private:
  [[nodiscard]] std::optional<std::size_t> index_of(std::uint32_t base) const;

  std::uint32_t start_;
  std::vector<bool> taken_;
  std::size_t next_ = 1;
};

}  // namespace daiv::sessions
