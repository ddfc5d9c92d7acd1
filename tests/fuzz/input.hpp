#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace daiv::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A broken promise ends the run, in every build type.
inline void require(bool promise) {
  if (!promise) std::abort();
}

// Takes the first byte, which selects what is fuzzed; 0 where there is none.
inline std::uint8_t take_selector(std::string_view& bytes) {
  if (bytes.empty()) return 0;
  const auto first = static_cast<std::uint8_t>(bytes.front());
  bytes.remove_prefix(1);
  return first;
}

}  // namespace daiv::fuzz
