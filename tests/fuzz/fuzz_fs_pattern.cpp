#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "agent/fs_line_window.hpp"
#include "agent/fs_matcher.hpp"
#include "agent/fs_path.hpp"
#include "agent/fs_replace.hpp"
#include "agent/fs_wildcard.hpp"

// What clients send as expressions, wildcards and texts to replace, on contents of any kind. The
// input is a pattern up to the first 0xFE byte, and the text after it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace daiv::agent;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(input.find('\xFE'), size);
  const std::string_view pattern = input.substr(0, cut);
  const std::string_view text = input.substr(std::min(cut + 1, size));

  if (const auto compiled = CompiledPattern::compile(pattern)) {
    LineMatcher matcher(*compiled);
    Line line;
    for (std::size_t from = 0; matcher.find(text, from, line) == Found::line; from = line.end + 1) {
      // A match lies within one line, and the search goes on.
      const bool whole = line.begin >= from && line.end <= text.size() &&
                         !text.substr(line.begin, line.end - line.begin).contains('\n') &&
                         (line.begin == 0 || text[line.begin - 1] == '\n');
      if (!whole) std::abort();
    }
  }
  static_cast<void>(Wildcard(pattern, WildcardFlavour::shell).matches(text));
  static_cast<void>(Wildcard(pattern, WildcardFlavour::glob).matches(text));
  static_cast<void>(check_fs_path(text, FsTarget::file));

  LineWindow window(1, 3, 16);
  if (window.feed(pattern) && window.feed(text) && window.finish()) {
    // Both are UTF-8, as replace_text() wants them.
    const auto result = replace_text(text, pattern, "new\n", Replace::all, std::size_t{1} << 20U);
    if (result && result->occurrences == 0) std::abort();
  }
  return 0;
}
