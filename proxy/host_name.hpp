#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace daiv::proxy {

// A host as policies compare it: lower-case, without a last dot, in its ASCII form (IDNA 2008, RFC
// 5891), an IP literal in its canonical spelling and without brackets. Two spellings of one host
// are equal here.
class HostName {
public:
  // Reads a host as it stands in a CONNECT target, a Host field or an SNI, without a port. Empty
  // for what is no host: empty or over-long labels, white space, control characters, user info, a
  // slash, a percent sign, a zone.
  static std::optional<HostName> parse(std::string_view text);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] bool is_address() const noexcept { return is_address_; }
  // As it stands in a URL: an IPv6 literal in brackets (RFC 3986 §3.2.2).
  [[nodiscard]] std::string in_url() const;

  friend bool operator==(const HostName&, const HostName&) = default;

private:
  HostName(std::string text, bool is_address) : text_(std::move(text)), is_address_(is_address) {}

  std::string text_;
  bool is_address_;
};

}  // namespace daiv::proxy
