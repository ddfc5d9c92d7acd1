#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace daiv::api {

struct MalformedChunk {};

// Reads a body in the chunked transfer coding (RFC 9112, section 7.1), however it is cut.
// Extensions and trailers are checked for their form and dropped. Stricter than the RFC allows to
// be: no white space around a size, no bare CR or LF anywhere, since readers that are lenient in
// different ways see different requests.
class ChunkDecoder {
public:
  // `max_line_bytes` bounds the line of a chunk's size, and all trailers together.
  explicit ChunkDecoder(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Takes bytes from the front of `bytes`, all but what follows the body; returns how many.
  std::expected<std::size_t, MalformedChunk> feed(std::string_view bytes, std::string& body);
  [[nodiscard]] bool done() const noexcept { return state_ == State::done; }

private:
  enum class State { size, data, data_end, trailer, done };

  // Adds to line_ up to and with a line end; false where the line is malformed or too long.
  bool take_line(std::string_view bytes, std::size_t& used);
  bool use_line();
  bool read_size(std::string_view line);

  std::size_t max_line_bytes_;
  State state_ = State::size;
  std::string line_;
  bool line_ended_ = false;
  std::uint64_t remaining_ = 0;
  std::size_t trailer_bytes_ = 0;
};

}  // namespace daiv::api
