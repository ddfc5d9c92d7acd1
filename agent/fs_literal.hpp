#pragma once

#include <string>
#include <string_view>

// Searches for one text by its rarest byte, which memchr(3) finds many bytes at a time.
namespace daiv::agent {

class LiteralFinder {
public:
  // `needle` must not be empty.
  explicit LiteralFinder(std::string needle);

  // Where the needle first is in `text` at or after `from`; npos where it is not.
  [[nodiscard]] std::size_t find(std::string_view text, std::size_t from) const;

private:
  std::string needle_;
  std::size_t rare_ = 0;  // index of the rarest byte
};

}  // namespace daiv::agent
