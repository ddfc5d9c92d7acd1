#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "agent/fs_protocol.hpp"

// Replacing text in text, without any file: what `edit` does between reading and writing.
namespace daiv::agent {

struct Replacement {
  std::string text;
  std::uint64_t occurrences = 0;
};

// Replaces `old_text` in `text` (both valid UTF-8). Where it does not occur, its line ends are
// tried as CR LF, then as LF, and those of `new_text` follow, so that a file keeps its kind. Empty
// `old_text` occurs before each character and at the end. Errors: string_not_found (with a hint
// where only a last line end is too much), multiple_occurrences, too_large where the result would
// be above `max_bytes`.
std::expected<Replacement, FsError> replace_text(std::string_view text, std::string_view old_text,
                                                 std::string_view new_text, Replace replace,
                                                 std::size_t max_bytes);

}  // namespace daiv::agent
