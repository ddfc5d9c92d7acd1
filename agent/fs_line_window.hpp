#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Cuts a stream of UTF-8 into lines as Python's str.splitlines() does (LF, CR, CR LF, VT, FF, FS,
// GS, RS, NEL, LS, PS), counts them, and keeps a window of them. It knows no file; memory is
// bounded by `max_kept` however long the input.
namespace daiv::agent {

class LineWindow {
public:
  // Keeps lines [offset, offset + limit), joined with LF, of which at most `max_kept` bytes are
  // stored.
  LineWindow(std::uint64_t offset, std::uint64_t limit, std::size_t max_kept);

  // Takes the next piece. Returns false, once and for ever, where the stream can't be UTF-8; a
  // character may be cut at the end of a piece.
  bool feed(std::string_view piece);
  // The same as feed() of `count` NUL bytes.
  bool feed_zeros(std::uint64_t count);
  // The end of the stream. Returns false where it ends inside a character.
  bool finish();

  // After finish():
  [[nodiscard]] std::uint64_t total_lines() const noexcept { return line_ + (in_line_ ? 1 : 0); }
  // The window's length in bytes, stored or not, and its first max_kept bytes.
  [[nodiscard]] std::uint64_t window_bytes() const noexcept { return window_bytes_; }
  [[nodiscard]] const std::string& kept() const noexcept { return kept_; }

private:
  void take_text(std::string_view valid);
  void append(std::string_view text);
  void store(std::string_view text);
  void end_line();
  [[nodiscard]] bool wanted() const noexcept {
    return line_ >= offset_ && line_ - offset_ < limit_;
  }

  std::uint64_t offset_;
  std::uint64_t limit_;
  std::size_t max_kept_;
  std::string kept_;
  std::string cut_character_;  // at most 3 bytes
  std::uint64_t window_bytes_ = 0;
  std::uint64_t line_ = 0;  // lines ended so far
  bool in_line_ = false;    // bytes since the last line end
  bool after_cr_ = false;   // a following LF belongs to that line end
  bool broken_ = false;
};

}  // namespace daiv::agent
