#include "agent/fs_replace.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "agent/fs_utf8.hpp"

namespace daiv::agent {
namespace {

std::string with_line_ends(std::string_view text, std::string_view line_end) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    if (text[i] == '\n') {
      out += line_end;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Where the next occurrence at or after `from` is; npos where there is none. Empty text occurs at
// every character and at the end.
std::size_t find_next(std::string_view text, std::string_view old_text, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  return text.find(old_text, from);
}

std::size_t step_after(std::string_view text, std::string_view old_text, std::size_t at) {
  if (!old_text.empty()) return at + old_text.size();
  if (at == text.size()) return at + 1;
  return at + std::max<std::size_t>(decode_utf8(text.substr(at)).length, 1);
}

std::uint64_t count_occurrences(std::string_view text, std::string_view old_text) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; (at = find_next(text, old_text, at)) != std::string_view::npos;) {
    ++count;
    at = step_after(text, old_text, at);
  }
  return count;
}

std::string replace_all(std::string_view text, std::string_view old_text, std::string_view new_text,
                        std::size_t result_bytes) {
  std::string out;
  out.reserve(result_bytes);
  std::size_t done = 0;
  for (std::size_t at = 0; (at = find_next(text, old_text, at)) != std::string_view::npos;) {
    out.append(text.substr(done, at - done)).append(new_text);
    done = at + old_text.size();
    at = step_after(text, old_text, at);
  }
  return out.append(text.substr(std::min(done, text.size())));
}

FsError absent(std::string message) { return {FsErrorCode::string_not_found, std::move(message)}; }

// Compared with LF alone, so that a CR LF file is told the same.
FsError explain_absence(std::string_view text, std::string_view old_text) {
  std::string wanted = with_line_ends(old_text, "\n");
  const bool ends_line = wanted.size() > 1 && wanted.ends_with('\n');
  if (ends_line) wanted.pop_back();
  const std::string plain = ends_line ? with_line_ends(text, "\n") : std::string();
  if (!ends_line || !plain.ends_with(wanted)) return absent("string_not_found");
  const std::string begin =
      "old_string ends with a newline, but the file does not end with a newline. ";
  const std::uint64_t count = count_occurrences(plain, wanted);
  if (count == 1) {
    return absent(begin +
                  "Retry with the trailing newline removed from old_string (and from new_string if "
                  "it also ends with a newline).");
  }
  return absent(begin + "With the trailing newline removed, old_string would appear " +
                std::to_string(count) +
                " times in the file. Retry with the trailing newline removed and add surrounding "
                "context so the match is unique.");
}

FsError several(std::uint64_t count) {
  return {FsErrorCode::multiple_occurrences,
          "String appears " + std::to_string(count) +
              " times in file. Use replace_all=True to replace all instances, or provide a more "
              "specific string with surrounding context."};
}

// Size of the result, or nothing where it is above `max_bytes`.
std::expected<std::size_t, FsError> result_size(std::size_t text, std::size_t old_text,
                                                std::size_t new_text, std::uint64_t count,
                                                std::size_t max_bytes) {
  const std::uint64_t rest = text - old_text * count;
  const bool fits = rest <= max_bytes && (new_text == 0 || count <= (max_bytes - rest) / new_text);
  if (!fits) {
    return std::unexpected(FsError{
        FsErrorCode::too_large,
        "Edited file would exceed the maximum size of " + std::to_string(max_bytes) + " bytes"});
  }
  return rest + new_text * count;
}

}  // namespace

std::expected<Replacement, FsError> replace_text(std::string_view text, std::string_view old_text,
                                                 std::string_view new_text, Replace replace,
                                                 std::size_t max_bytes) {
  const auto as = [&](std::string_view line_end) {
    return std::pair(with_line_ends(old_text, line_end), with_line_ends(new_text, line_end));
  };
  const std::array<std::pair<std::string, std::string>, 3> spellings = {
      std::pair(std::string(old_text), std::string(new_text)), as("\r\n"), as("\n")};
  for (const auto& [wanted, given] : spellings) {
    const std::uint64_t count = count_occurrences(text, wanted);
    if (count == 0) continue;
    if (count > 1 && replace == Replace::only_one) return std::unexpected(several(count));
    const auto size = result_size(text.size(), wanted.size(), given.size(), count, max_bytes);
    if (!size) return std::unexpected(size.error());
    return Replacement{replace_all(text, wanted, given, *size), count};
  }
  return std::unexpected(explain_absence(text, old_text));
}

}  // namespace daiv::agent
