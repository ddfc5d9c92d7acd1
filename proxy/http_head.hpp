#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Heads of HTTP/1.x messages (RFC 9112), read strictly: where two parsers could disagree the
// message is refused, since what we judge and what the origin understands must be one and the same
// (RFC 9112 §11.2). Knows no socket.
namespace daiv::proxy {

inline constexpr std::size_t max_head_bytes = 256U << 10;  // 431 above; never below 64 KiB
inline constexpr std::size_t max_fields = 1000;            // 431 above
inline constexpr std::size_t max_interim_heads = 16;       // 1xx before an answer (RFC 9110 15.2)

// A field as it was sent: spelling and order are kept.
struct Field {
  std::string name;
  std::string value;  // without white space at its ends
};

struct RequestHead {
  std::string method;
  std::string target;
  int minor_version = 1;
  std::vector<Field> fields;
};

struct ResponseHead {
  int status = 0;
  std::string reason;
  int minor_version = 1;
  std::vector<Field> fields;
};

// Why a message is refused; for a request `status` is the answer, for a response it is 502.
struct HttpFault {
  int status = 400;
  std::string text;
};

// Finds the end of a head as its bytes arrive, each byte looked at once: a head that comes in tiny
// pieces costs no more than another. What can't become a head is a fault as soon as it is seen (a
// bare LF, an empty line first, a request line of HTTP/0.9), since waiting for more would hang.
class HeadScanner {
public:
  enum class Kind { request, response };
  explicit HeadScanner(Kind kind) : kind_(kind) {}

  // `bytes` is the head's beginning as far as it is known: what was given before, and more. Where
  // the head ends (behind its empty line); 0 while it is incomplete. A fault where it is longer
  // than max_head_bytes already.
  std::expected<std::size_t, HttpFault> scan(std::string_view bytes);

private:
  Kind kind_;
  std::size_t scanned_ = 0;
  std::size_t line_start_ = 0;
};

// The same for bytes that are given once.
std::expected<std::size_t, HttpFault> find_head_end(std::string_view bytes);

// Both take exactly a head, its empty line included.
std::expected<RequestHead, HttpFault> parse_request_head(std::string_view bytes);
std::expected<ResponseHead, HttpFault> parse_response_head(std::string_view bytes);

// Trailer fields as they follow the last chunk, up to and with the empty line.
std::expected<std::vector<Field>, HttpFault> parse_fields(std::string_view bytes);

// All values of the field `name`, in order.
std::vector<std::string_view> values_of(const std::vector<Field>& fields, std::string_view name);

// The members of all comma-separated lists in the fields `name`, lower-case and trimmed (RFC 9110
// §5.6.1).
std::vector<std::string> list_of(const std::vector<Field>& fields, std::string_view name);

void remove_field(std::vector<Field>& fields, std::string_view name);

// Visible characters, blanks between them and bytes above ASCII; never a control character (RFC
// 9110 §5.5).
bool is_field_value(std::string_view text);

// How a message's body is delimited (RFC 9112 §6.3).
struct BodyFraming {
  enum class Kind { none, length, chunked, until_close } kind = Kind::none;
  std::uint64_t length = 0;
};

// Refuses Content-Length beside Transfer-Encoding, more than one Content-Length, one that is not
// only digits, every transfer coding but exactly "chunked", and any in HTTP/1.0.
std::expected<BodyFraming, HttpFault> plan_request_body(const RequestHead& head);

// As above, with what the answer to `request_method` can have; ambiguity is a fault of the origin:
// 502.
std::expected<BodyFraming, HttpFault> plan_response_body(const ResponseHead& head,
                                                         std::string_view request_method);

// As they go over the wire.
std::string to_text(const RequestHead& head);
std::string to_text(const ResponseHead& head);

}  // namespace daiv::proxy
