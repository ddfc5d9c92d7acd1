#include "agent/fs_file_search.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "agent/fs_utf8.hpp"
#include "os/error.hpp"

namespace daiv::agent {
namespace {

// GNU grep's first buffer, whose NULs decide whether a file is binary.
constexpr std::size_t piece_bytes = 96U << 10;

std::uint64_t count_lines(std::string_view text) {
  return static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
}

std::string line_text(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() <= max_match_text_bytes) return std::string(line);
  line = line.substr(0, max_match_text_bytes);
  // Not inside a character.
  for (std::size_t back = 1; back <= 3; ++back) {
    const std::string_view tail = line.substr(line.size() - back);
    if (decode_utf8(tail).length == 0 && is_utf8_beginning(tail)) {
      line.remove_suffix(back);
      break;
    }
  }
  return std::string(line);
}

// The size a regular file has now; without end for those of /proc, which have none.
std::uint64_t size_now(const os::UniqueFd& fd) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || status.st_size == 0) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

FileSearcher::FileSearcher(const CompiledPattern& pattern)
    : matcher_(pattern), buffer_(2 * piece_bytes) {}

bool FileSearcher::search_lines(std::string_view text, std::size_t max_matches,
                                SearchResult& result) {
  std::size_t from = 0;
  std::size_t counted = 0;
  std::uint64_t line_number = lines_before_ + 1;
  Line line;
  while (from <= text.size()) {
    const Found found = matcher_.find(text, from, line);
    if (found == Found::nothing) break;
    if (found == Found::too_complex) {
      result.end = SearchEnd::too_complex;
      return false;
    }
    line_number += count_lines(text.substr(counted, line.begin - counted));
    counted = line.begin;
    std::string shown = line_text(text.substr(line.begin, line.end - line.begin));
    result.text_bytes += shown.size();
    result.matches.push_back({line_number, std::move(shown)});
    if (result.matches.size() == max_matches || result.text_bytes > max_search_text_bytes) {
      result.more = true;
      return false;
    }
    from = line.end + 1;
  }
  return true;
}

ssize_t FileSearcher::fill(const os::UniqueFd& fd, std::size_t kept) {
  if (buffer_.size() - kept < piece_bytes) buffer_.resize(2 * buffer_.size());
  // One call: less than was asked for is the end of a regular file on a disk or in memory, and
  // below the searched tree nothing else can be mounted.
  return os::retry_eintr([&] { return ::read(fd.get(), buffer_.data() + kept, piece_bytes); });
}

SearchResult FileSearcher::search(const os::UniqueFd& fd, std::size_t max_matches,
                                  std::chrono::steady_clock::time_point deadline) {
  SearchResult result;
  lines_before_ = 0;
  std::size_t kept = 0;  // the begin of a line whose end is not read yet
  std::uint64_t done = 0;
  std::uint64_t size = 0;  // asked for only where a file needs more than one piece
  for (;;) {
    const ssize_t count = fill(fd, kept);
    if (count < 0) {
      result.end = SearchEnd::failed;
      result.errno_value = errno;
      return result;
    }
    const auto fresh = static_cast<std::size_t>(count);
    if (std::memchr(buffer_.data() + kept, '\0', fresh) != nullptr) return result;
    std::string_view text(buffer_.data(), kept + fresh);
    done += fresh;
    if (size == 0 && fresh == piece_bytes) size = size_now(fd);
    if (fresh < piece_bytes || done >= size) {
      if (text.empty()) return result;
      if (text.ends_with('\n')) text.remove_suffix(1);
      search_lines(text, max_matches, result);
      return result;
    }
    // The kept part holds none: only what is fresh is looked at, however long the line is.
    const std::size_t fresh_end = text.substr(kept).rfind('\n');
    if (fresh_end == std::string_view::npos) {
      kept += fresh;
      if (kept > max_line_bytes) {
        result.end = SearchEnd::too_long;
        return result;
      }
      continue;
    }
    const std::size_t line_end = kept + fresh_end;
    if (!search_lines(text.substr(0, line_end), max_matches, result)) return result;
    lines_before_ += count_lines(text.substr(0, line_end + 1));
    kept = text.size() - line_end - 1;
    std::memmove(buffer_.data(), buffer_.data() + line_end + 1, kept);
    if (std::chrono::steady_clock::now() > deadline) {
      result.end = SearchEnd::too_late;
      return result;
    }
  }
}

}  // namespace daiv::agent
