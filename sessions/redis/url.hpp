#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace daiv::sessions::redis {

enum class Tls { off, on };

// Where a Redis is and who we are there.
struct Url {
  Tls tls = Tls::off;
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = 6379;
  std::string user;      // empty: Redis's own "default"
  std::string password;  // empty: none
  std::uint32_t database = 0;
  std::string ca_file;  // empty: the certificates that the host trusts

  // "127.0.0.1:6379/0", for logs: without user and password.
  [[nodiscard]] std::string place() const;
};

// redis:// or rediss://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE][?OPTION=VALUE…], user and password
// percent-encoded (RFC 3986 §2.1). Options are those of redis-py that do not weaken TLS: db,
// ssl_ca_certs (a path), ssl_cert_reqs=required, ssl_check_hostname=true. The error says what is
// accepted and never what was there, which may hold a password.
std::expected<Url, std::string> parse_url(std::string_view text);

}  // namespace daiv::sessions::redis
