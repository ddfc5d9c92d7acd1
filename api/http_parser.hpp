#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "api/http_message.hpp"

// Reads one HTTP/1.1 request from bytes as they come (RFC 9112); knows no socket.
namespace daiv::api {

struct HeadLimits {
  std::size_t max_head_bytes = 16U << 10;   // request line and fields; 431 above
  std::size_t max_target_bytes = 8U << 10;  // 414 above
  std::size_t max_fields = 100;             // 431 above
  std::size_t max_chunk_head_bytes = 4U
                                     << 10;  // size and extensions of a chunk, trailers; 400 above
};

// What a request is refused with; the connection can't be used any further.
struct HttpFault {
  int status = 400;
  std::string text;
};

// Usage: feed() until head_done(), then feed() until done(), each time with what the last call did
// not use and, where it used nothing, more bytes behind that.
//
// Refused beyond what RFC 9112 makes optional, since proxies and servers that disagree here let
// requests be smuggled (section 11.2): bare LF, obsolete folding, more than one Content-Length or
// one that is not only digits, any Transfer-Encoding but "chunked", both of them together, more or
// less than one Host in HTTP/1.1.
class RequestParser {
public:
  explicit RequestParser(HeadLimits limits = {});
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  // Takes bytes from the front of `bytes` and returns how many; appends body bytes to `body`.
  // Before the head is complete nothing is taken, and it stops behind the head.
  std::expected<std::size_t, HttpFault> feed(std::string_view bytes, std::string& body);

  [[nodiscard]] bool head_done() const noexcept;
  [[nodiscard]] bool done() const noexcept;  // head and body
  [[nodiscard]] const RequestHead& head() const noexcept;

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::api
