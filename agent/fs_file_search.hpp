#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/fs_matcher.hpp"
#include "os/unique_fd.hpp"

// Searches the lines of one open file, in pieces: memory is bounded by the longest line, up to
// max_line_bytes.
namespace daiv::agent {

inline constexpr std::size_t max_line_bytes = 16U << 20;
// What is given of a longer matching line.
inline constexpr std::size_t max_match_text_bytes = 256U << 10;
// All texts of one search together; what is beyond is as if there were too many matches.
inline constexpr std::size_t max_search_text_bytes = 24U << 20;

struct LineMatch {
  std::uint64_t line = 0;
  std::string text;  // without LF and a CR before it
};

enum class SearchEnd {
  done,
  too_long,     // a line above max_line_bytes
  too_complex,  // the pattern would take too long on a line
  too_late,     // the deadline passed
  failed,       // read(2); see errno_value
};

struct SearchResult {
  std::vector<LineMatch> matches;
  std::size_t text_bytes = 0;  // of all matches
  bool more = false;           // max_matches or max_search_text_bytes was met
  bool incomplete = false;     // a file of a tree that could not be searched to its end
  SearchEnd end = SearchEnd::done;
  int errno_value = 0;
};

// One thread's searcher: its buffer serves file after file.
class FileSearcher {
public:
  explicit FileSearcher(const CompiledPattern& pattern);

  // The first `max_matches` lines of the file that match. As grep has it, a file with a NUL in its
  // first piece is binary and gives no lines, and one with a NUL later gives only those of the
  // pieces before. A file that grows while it is read is searched up to the size it had.
  SearchResult search(const os::UniqueFd& fd, std::size_t max_matches,
                      std::chrono::steady_clock::time_point deadline);

private:
  // Reads the next piece behind `kept` bytes (read(2)); less than a piece comes only at the end.
  ssize_t fill(const os::UniqueFd& fd, std::size_t kept);
  // Searches whole lines; returns whether to go on.
  bool search_lines(std::string_view text, std::size_t max_matches, SearchResult& result);

  LineMatcher matcher_;
  std::vector<char> buffer_;
  std::uint64_t lines_before_ = 0;
};

}  // namespace daiv::agent
