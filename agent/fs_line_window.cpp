#include "agent/fs_line_window.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "agent/fs_utf8.hpp"

namespace daiv::agent {
namespace {

constexpr std::string_view next_line = "\xC2\x85";
constexpr std::string_view line_separator = "\xE2\x80\xA8";
constexpr std::string_view paragraph_separator = "\xE2\x80\xA9";

// Bytes that may begin a line end.
constexpr std::array<bool, 256> make_suspects() {
  std::array<bool, 256> suspects{};
  for (const unsigned value : {0x0AU, 0x0BU, 0x0CU, 0x0DU, 0x1CU, 0x1DU, 0x1EU, 0xC2U, 0xE2U}) {
    suspects.at(value) = true;
  }
  return suspects;
}
constexpr std::array<bool, 256> suspects = make_suspects();

// Whether one of eight bytes is below 0x20 or above 0x7F ("Bit Twiddling Hacks", hasless()).
bool may_hold_suspects(std::uint64_t word) {
  constexpr std::uint64_t ones = 0x0101010101010101U;
  constexpr std::uint64_t highs = 0x8080808080808080U;
  return (((word - ones * 0x20U) | word) & highs) != 0;
}

std::size_t find_suspect(std::string_view text, std::size_t from) {
  std::uint64_t word = 0;
  while (from < text.size()) {
    if (from + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + from, sizeof word);
      if (!may_hold_suspects(word)) {
        from += sizeof word;
        continue;
      }
    }
    const std::size_t stop = std::min(from + sizeof word, text.size());
    for (; from < stop; ++from) {
      if (suspects[static_cast<unsigned char>(text[from])]) return from;
    }
  }
  return text.size();
}

// Length of the line end at the beginning of `text`, CR LF aside; 0 where there is none.
std::size_t line_end_length(std::string_view text) {
  if (text.starts_with(next_line)) return next_line.size();
  if (text.starts_with(line_separator) || text.starts_with(paragraph_separator)) return 3;
  return static_cast<unsigned char>(text.front()) < 0x20 ? 1 : 0;
}

}  // namespace

LineWindow::LineWindow(std::uint64_t offset, std::uint64_t limit, std::size_t max_kept)
    : offset_(offset), limit_(limit), max_kept_(max_kept) {}

bool LineWindow::feed(std::string_view piece) {
  if (broken_) return false;
  while (!cut_character_.empty() && !piece.empty()) {
    cut_character_ += piece.front();
    piece.remove_prefix(1);
    if (decode_utf8(cut_character_).length == cut_character_.size()) {
      const std::string whole = std::exchange(cut_character_, {});
      take_text(whole);
    } else if (!is_utf8_beginning(cut_character_)) {
      broken_ = true;
      return false;
    }
  }
  const std::size_t valid = valid_utf8_prefix(piece);
  take_text(piece.substr(0, valid));
  piece.remove_prefix(valid);
  if (!is_utf8_beginning(piece)) broken_ = true;
  cut_character_ += piece.substr(0, 3);
  return !broken_;
}

bool LineWindow::feed_zeros(std::uint64_t count) {
  constexpr std::array<char, 4096> zeros{};
  // NULs end no line: once the window holds all that it may, only their number counts.
  while (count > 0 && !broken_) {
    const bool stores = (wanted() && kept_.size() < max_kept_) || !cut_character_.empty();
    if (!stores && in_line_) {
      if (wanted()) window_bytes_ += count;
      return true;
    }
    const std::size_t piece = std::min<std::uint64_t>(count, zeros.size());
    feed({zeros.data(), piece});
    count -= piece;
  }
  return !broken_;
}

bool LineWindow::finish() {
  if (!cut_character_.empty()) broken_ = true;
  return !broken_;
}

void LineWindow::take_text(std::string_view valid) {
  if (valid.empty()) return;
  if (std::exchange(after_cr_, false) && valid.front() == '\n') valid.remove_prefix(1);
  std::size_t begin = 0;
  std::size_t at = 0;
  while ((at = find_suspect(valid, at)) < valid.size()) {
    const std::size_t length = line_end_length(valid.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    append(valid.substr(begin, at - begin));
    end_line();
    const bool cr = valid[at] == '\r';
    at += length;
    if (cr && at < valid.size() && valid[at] == '\n') ++at;
    after_cr_ = cr && at == valid.size() && valid[at - 1] == '\r';
    begin = at;
  }
  if (begin < valid.size()) append(valid.substr(begin));
}

// Continues the current line, which it begins where there is none.
void LineWindow::append(std::string_view text) {
  if (!std::exchange(in_line_, true) && wanted() && line_ != offset_) store("\n");
  if (wanted()) store(text);
}

void LineWindow::store(std::string_view text) {
  window_bytes_ += text.size();
  kept_ += text.substr(0, max_kept_ - std::min(max_kept_, kept_.size()));
}

void LineWindow::end_line() {
  ++line_;
  in_line_ = false;
}

}  // namespace daiv::agent
