#include "api/chunk_decoder.hpp"

#include <algorithm>
#include <utility>

#include "wire/ascii.hpp"

namespace daiv::api {
namespace {

constexpr std::size_t max_size_digits = 15;  // 2^60 bytes: no overflow

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == '\x7f';
  });
}

}  // namespace

bool ChunkDecoder::take_line(std::string_view bytes, std::size_t& used) {
  const std::size_t end = bytes.find('\n', used);
  const std::size_t stop = end == std::string_view::npos ? bytes.size() : end + 1;
  line_ += bytes.substr(used, stop - used);
  used = stop;
  if (line_.size() > max_line_bytes_) return false;
  line_ended_ = end != std::string_view::npos;
  if (!line_ended_) return true;
  if (!line_.ends_with("\r\n")) return false;
  line_.resize(line_.size() - 2);
  return !has_control(line_);
}

bool ChunkDecoder::read_size(std::string_view line) {
  std::uint64_t size = 0;
  std::size_t digits = 0;
  for (; digits < line.size() && wire::hex_value(line[digits]) >= 0; ++digits)
    size = size * 16 + static_cast<std::uint64_t>(wire::hex_value(line[digits]));
  if (digits == 0 || digits > max_size_digits) return false;
  if (digits < line.size() && line[digits] != ';') return false;
  remaining_ = size;
  state_ = size == 0 ? State::trailer : State::data;
  return true;
}

bool ChunkDecoder::use_line() {
  const std::string line = std::exchange(line_, "");
  line_ended_ = false;
  if (state_ == State::size) return read_size(line);
  if (state_ == State::data_end) {
    state_ = State::size;
    return line.empty();
  }
  trailer_bytes_ += line.size() + 2;
  if (line.empty()) {
    state_ = State::done;
    return true;
  }
  const std::size_t colon = line.find(':');
  return trailer_bytes_ <= max_line_bytes_ && colon != 0 && colon != std::string::npos &&
         line.find_first_of(" \t") > colon;
}

std::expected<std::size_t, MalformedChunk> ChunkDecoder::feed(std::string_view bytes,
                                                              std::string& body) {
  std::size_t used = 0;
  while (used < bytes.size() && state_ != State::done) {
    if (state_ == State::data) {
      const std::size_t size = std::min<std::uint64_t>(remaining_, bytes.size() - used);
      body += bytes.substr(used, size);
      used += size;
      remaining_ -= size;
      if (remaining_ == 0) state_ = State::data_end;
      continue;
    }
    // Two bytes are all that may stand here; anything else is known to be wrong at once.
    if (state_ == State::data_end && line_.empty() && bytes[used] != '\r')
      return std::unexpected(MalformedChunk{});
    if (!take_line(bytes, used)) return std::unexpected(MalformedChunk{});
    if (line_ended_ && !use_line()) return std::unexpected(MalformedChunk{});
  }
  return used;
}

}  // namespace daiv::api
