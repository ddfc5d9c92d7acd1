#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/http_message.hpp"

// Answers as HTTP/1.1 bytes.
namespace daiv::api {

enum class Framing { length, chunks, until_close };
enum class Persistence { keep_alive, close };

struct ResponseFrame {
  Framing framing = Framing::length;
  std::uint64_t length = 0;
  Persistence persistence = Persistence::keep_alive;
  HttpVersion version = HttpVersion::http_1_1;  // of the request
};

// The status line and fields, with Date, up to and with the empty line. 204, 304 and 1xx have no
// length.
std::string write_head(const Response& response, const ResponseFrame& frame);

// One chunk; `bytes` must not be empty: that would be the last one.
std::string write_chunk(std::string_view bytes);
inline constexpr std::string_view last_chunk = "0\r\n\r\n";
inline constexpr std::string_view continue_head = "HTTP/1.1 100 Continue\r\n\r\n";

std::string_view reason_phrase(int status) noexcept;

}  // namespace daiv::api
