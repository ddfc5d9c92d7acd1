#include "proxy/client_hello.hpp"

#include <algorithm>
#include <cstdint>

namespace daiv::proxy {
namespace {

using Kind = HelloPeek::Kind;

constexpr unsigned char handshake_record = 22;
constexpr unsigned char client_hello_message = 1;
constexpr std::size_t record_header_bytes = 5;
constexpr std::size_t max_record_bytes = 16384;
constexpr std::uint32_t server_name_extension = 0;

// Takes fields off the front; an overrun makes everything after it empty and ok() false.
class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint32_t number(std::size_t size) {
    std::uint32_t value = 0;
    for (const char byte : take(size)) value = value << 8 | static_cast<unsigned char>(byte);
    return value;
  }
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const auto taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  // A vector whose length stands before it in `size` bytes.
  std::string_view vector(std::size_t size) { return take(number(size)); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] bool ok() const { return ok_; }

private:
  std::string_view bytes_;
  bool ok_ = true;
};

// The handshake bytes of the leading records; nothing where a record is no handshake's.
std::optional<std::string> join_records(std::string_view bytes) {
  std::string joined;
  while (bytes.size() >= record_header_bytes) {
    Reader header(bytes.substr(0, record_header_bytes));
    const auto type = header.number(1);
    const auto version = header.number(2);
    const auto length = header.number(2);
    if (type != handshake_record || version >> 8 != 3 || length == 0 || length > max_record_bytes)
      return std::nullopt;
    bytes.remove_prefix(record_header_bytes);
    joined += bytes.substr(0, length);
    bytes.remove_prefix(std::min<std::size_t>(length, bytes.size()));
    // What follows the message is not ours to judge.
    if (joined.size() >= 4) {
      Reader message(joined);
      message.take(1);
      if (joined.size() >= 4 + message.number(3)) break;
    }
  }
  return joined;
}

// One host_name and nothing else: no other kind of name was ever defined.
std::optional<std::string> read_server_name(std::string_view extension) {
  Reader outer(extension);
  Reader list(outer.vector(2));
  const auto type = list.number(1);
  const auto name = list.vector(2);
  if (!outer.ok() || !outer.empty() || !list.ok() || !list.empty() || type != 0 || name.empty())
    return std::nullopt;
  return std::string(name);
}

HelloPeek read_extensions(std::string_view bytes) {
  HelloPeek peek{Kind::hello, std::nullopt};
  Reader extensions(bytes);
  while (!extensions.empty()) {
    const auto type = extensions.number(2);
    const auto data = extensions.vector(2);
    if (!extensions.ok()) return {Kind::malformed, std::nullopt};
    if (type != server_name_extension) continue;
    if (peek.server_name) return {Kind::malformed, std::nullopt};
    peek.server_name = read_server_name(data);
    if (!peek.server_name) return {Kind::malformed, std::nullopt};
  }
  return peek;
}

HelloPeek read_hello(std::string_view body) {
  Reader hello(body);
  const auto version = hello.number(2);
  hello.take(32);  // random
  const auto session = hello.vector(1);
  const auto suites = hello.vector(2);
  const auto compressions = hello.vector(1);
  const bool sound = hello.ok() && version >> 8 == 3 && session.size() <= 32 && !suites.empty() &&
                     suites.size() % 2 == 0 && !compressions.empty();
  if (!sound) return {Kind::malformed, std::nullopt};
  if (hello.empty()) return {Kind::hello, std::nullopt};  // TLS 1.2 without extensions
  const auto extensions = hello.vector(2);
  if (!hello.ok() || !hello.empty()) return {Kind::malformed, std::nullopt};
  return read_extensions(extensions);
}

}  // namespace

HelloPeek peek_client_hello(std::string_view bytes) {
  if (bytes.empty()) return {};
  if (static_cast<unsigned char>(bytes[0]) != handshake_record)
    return {Kind::not_tls, std::nullopt};
  if (bytes.size() > 1 && bytes[1] != 3) return {Kind::not_tls, std::nullopt};
  const auto joined = join_records(bytes);
  if (!joined) return {Kind::malformed, std::nullopt};
  const bool too_long = bytes.size() > max_client_hello_bytes;
  if (!joined->empty() && joined->front() != client_hello_message)
    return {Kind::malformed, std::nullopt};
  if (joined->size() < 4) return {too_long ? Kind::malformed : Kind::incomplete, std::nullopt};
  Reader message(*joined);
  message.take(1);
  const std::size_t length = message.number(3);
  if (length > max_client_hello_bytes || too_long) return {Kind::malformed, std::nullopt};
  if (joined->size() < 4 + length) return {};
  return read_hello(std::string_view(*joined).substr(4, length));
}

}  // namespace daiv::proxy
