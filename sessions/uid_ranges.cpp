#include "sessions/uid_ranges.hpp"

namespace daiv::sessions {

UidRanges::UidRanges(std::uint32_t start, std::uint32_t count)
    : start_(start), taken_(count, false) {
  if (!taken_.empty()) taken_[0] = true;
}

std::optional<std::uint32_t> UidRanges::take() {
  for (std::size_t tried = 0; tried < taken_.size(); ++tried) {
    const std::size_t index = (next_ + tried) % taken_.size();
    if (taken_[index]) continue;
    taken_[index] = true;
    next_ = index + 1;
    return start_ + static_cast<std::uint32_t>(index) * uids_per_range;
  }
  return std::nullopt;
}

bool UidRanges::claim(std::uint32_t base) {
  const auto index = index_of(base);
  if (!index || taken_[*index]) return false;
  taken_[*index] = true;
  return true;
}

void UidRanges::give_back(std::uint32_t base) {
  const auto index = index_of(base);
  if (index && *index != 0) taken_[*index] = false;
}

std::optional<std::size_t> UidRanges::index_of(std::uint32_t base) const {
  if (base < start_ || (base - start_) % uids_per_range != 0) return std::nullopt;
  const std::size_t index = (base - start_) / uids_per_range;
  if (index >= taken_.size()) return std::nullopt;
  return index;
}

}  // namespace daiv::sessions
