#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace daiv::sentry {

// Where events go and with which key (Sentry developer documentation, "Overview", Parsing the DSN).
struct Dsn {
  std::string envelope_url;  // "https://host/path/api/PROJECT/envelope/"
  std::string public_key;
};

// Reads "SCHEME://KEY[:SECRET]@HOST[:PORT][/PATH]/PROJECT"; the deprecated secret is dropped.
// The error says what is wrong without repeating the DSN.
std::expected<Dsn, std::string> parse_dsn(std::string_view text);

}  // namespace daiv::sentry
