#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace daiv::proxy {

inline constexpr std::size_t max_client_hello_bytes = 64U << 10;

// What the first bytes of a client in a tunnel are.
struct HelloPeek {
  enum class Kind {
    incomplete,  // may become a ClientHello: more bytes are needed
    not_tls,     // begins like no TLS record
    malformed,   // begins like TLS and is no ClientHello that can be read
    hello,
  };
  Kind kind = Kind::incomplete;
  std::optional<std::string> server_name;  // of a hello: its SNI as sent (RFC 6066 §3)
};

// Reads a ClientHello (RFC 8446 §4.1.2) that may lie in several records (§5.1). Strict: a message
// of which two readers could take different names is malformed.
HelloPeek peek_client_hello(std::string_view bytes);

}  // namespace daiv::proxy
