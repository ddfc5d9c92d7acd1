#include "agent/fs_literal.hpp"

#include <cstring>

namespace daiv::agent {
namespace {

// How common a byte is in source code and prose, roughly.
int frequency(unsigned char byte) {
  constexpr std::string_view by_frequency =
      " etaoinsrlcdupmfhg_\n.,yb(v)-=:;'\"\t0w1kx/*T2SE>AIRCNDLOPMF";
  const std::size_t rank = by_frequency.find(static_cast<char>(byte));
  if (rank != std::string_view::npos) return 256 - static_cast<int>(rank);
  return byte == 0 ? 200 : 100;
}

// After so many false hits the rare byte is not rare here.
constexpr int max_false_hits = 64;

}  // namespace

LiteralFinder::LiteralFinder(std::string needle) : needle_(std::move(needle)) {
  for (std::size_t i = 1; i < needle_.size(); ++i) {
    if (frequency(static_cast<unsigned char>(needle_[i])) <
        frequency(static_cast<unsigned char>(needle_[rare_]))) {
      rare_ = i;
    }
  }
}

std::size_t LiteralFinder::find(std::string_view text, std::size_t from) const {
  constexpr std::size_t npos = std::string_view::npos;
  if (text.size() < needle_.size()) return npos;
  const std::size_t last = text.size() - needle_.size();
  for (int false_hits = 0; false_hits < max_false_hits && from <= last; ++false_hits) {
    const char* begin = text.data() + from + rare_;
    const auto* hit = static_cast<const char*>(std::memchr(begin, needle_[rare_], last - from + 1));
    if (hit == nullptr) return npos;
    const auto at = static_cast<std::size_t>(hit - text.data()) - rare_;
    if (std::memcmp(text.data() + at, needle_.data(), needle_.size()) == 0) return at;
    from = at + 1;
  }
  if (from > last) return npos;
  const void* hit =
      ::memmem(text.data() + from, text.size() - from, needle_.data(), needle_.size());
  if (hit == nullptr) return npos;
  return static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
}

}  // namespace daiv::agent
