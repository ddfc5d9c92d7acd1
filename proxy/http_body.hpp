#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/http_head.hpp"

namespace daiv::proxy {

inline constexpr std::size_t max_chunk_line_bytes = 4096;  // size and extensions of a chunk
inline constexpr std::size_t max_trailer_bytes = 64U << 10;

// Takes a body out of its framing, piece by piece, as bytes arrive: nothing is held back but half a
// chunk's line or half the trailers. Knows no socket.
class BodyReader {
public:
  explicit BodyReader(BodyFraming framing) noexcept;

  // Takes bytes from the front of `bytes`, appends body bytes to `body`, returns how many were
  // taken. It takes all, unless the body ends before, or the rest of a line is missing (then the
  // same bytes and more are given again).
  std::expected<std::size_t, HttpFault> feed(std::string_view bytes, std::string& body);

  // The sender has closed: true where the body is whole by that.
  [[nodiscard]] bool finish() noexcept;

  [[nodiscard]] bool done() const noexcept { return state_ == State::done; }

  // Fields behind the last chunk, valid when done.
  [[nodiscard]] const std::vector<Field>& trailers() const noexcept { return trailers_; }

private:
  enum class State { counted, until_close, chunk_size, chunk_data, chunk_end, trailers, done };

  std::expected<std::size_t, HttpFault> step(std::string_view bytes, std::string& body);
  std::expected<std::size_t, HttpFault> take_size(std::string_view bytes);
  std::expected<std::size_t, HttpFault> take_trailers(std::string_view bytes);

  State state_;
  std::uint64_t left_ = 0;
  std::vector<Field> trailers_;
};

// One chunk; `data` must not be empty, since an empty one ends the body.
std::string make_chunk(std::string_view data);

// What frames, routes or authenticates may not be in a trailer (RFC 9110 §6.5.1).
bool is_forbidden_trailer(std::string_view name);

// The last chunk with the trailers that may be passed on.
std::string make_last_chunk(const std::vector<Field>& trailers);

}  // namespace daiv::proxy
