#include "proxy/host_name.hpp"

#include <arpa/inet.h>
#include <idn2.h>

#include <algorithm>
#include <array>
#include <memory>

namespace daiv::proxy {
namespace {

constexpr std::size_t max_name_bytes = 253;  // RFC 1035 §2.3.4, without the last dot
constexpr std::size_t max_label_bytes = 63;

struct IdnDeleter {
  void operator()(char* text) const noexcept { ::idn2_free(text); }
};

// The canonical text of an IPv4 or IPv6 literal (inet_ntop(3)). Only the four-part form is IPv4:
// "127.1" and "0x7f000001" are what resolvers of old make of them, and no name either (see
// is_name).
std::optional<std::string> canonical_address(std::string text) {
  const bool bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  if (bracketed) text = text.substr(1, text.size() - 2);
  std::array<unsigned char, sizeof(in6_addr)> address{};
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  const int family = text.find(':') != std::string::npos ? AF_INET6 : AF_INET;
  if (bracketed && family == AF_INET) return std::nullopt;
  if (::inet_pton(family, text.c_str(), address.data()) != 1) return std::nullopt;
  return ::inet_ntop(family, address.data(), canonical.data(), canonical.size());
}

bool is_label(std::string_view label) {
  return !label.empty() && label.size() <= max_label_bytes &&
         std::ranges::all_of(label, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

// A name's last label is never only digits, nor hexadecimal with 0x: such a "name" is an address in
// disguise (WHATWG URL, "ends in a number").
bool ends_in_number(std::string_view label) {
  if (label.starts_with("0x"))
    label.remove_prefix(2);
  else if (!std::ranges::all_of(label, [](char c) { return c >= '0' && c <= '9'; }))
    return false;
  return std::ranges::all_of(
      label, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > max_name_bytes) return false;
  for (;;) {
    const auto dot = text.find('.');
    if (!is_label(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return !ends_in_number(text);
    text.remove_prefix(dot + 1);
  }
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::optional<std::string> to_ascii(const std::string& text) {
  char* result = nullptr;
  if (::idn2_to_ascii_8z(text.c_str(), &result, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK)
    return std::nullopt;
  const std::unique_ptr<char, IdnDeleter> owner(result);
  return std::string(result);
}

}  // namespace

std::optional<HostName> HostName::parse(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  std::string name(text);
  if (auto address = canonical_address(name)) return HostName(std::move(*address), true);
  if (name.ends_with('.')) name.pop_back();
  if (!is_ascii(name)) {
    auto ascii = to_ascii(name);
    if (!ascii) return std::nullopt;
    name = std::move(*ascii);
  }
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  if (auto address = canonical_address(name))
    return HostName(std::move(*address), true);  // "127.0.0.1."
  if (!is_name(name)) return std::nullopt;
  return HostName(std::move(name), false);
}

std::string HostName::in_url() const {
  return is_address_ && text_.find(':') != std::string::npos ? "[" + text_ + "]" : text_;
}

}  // namespace daiv::proxy
