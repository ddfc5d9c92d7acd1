#include <curl/curl.h>

#include <array>
#include <memory>

#include "images/http_transfer.hpp"

namespace daiv::images {
namespace {

struct UrlFree {
  void operator()(CURLU* url) const noexcept { curl_url_cleanup(url); }
};
struct CurlFree {
  void operator()(char* text) const noexcept { curl_free(text); }
};
using UrlPtr = std::unique_ptr<CURLU, UrlFree>;

std::string part(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, flags) != CURLUE_OK) return {};
  const std::unique_ptr<char, CurlFree> owner(text);
  return text;
}

}  // namespace

Origin origin_of(const std::string& url) {
  const UrlPtr parsed(curl_url());
  if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return {};
  Origin origin{.scheme = part(parsed.get(), CURLUPART_SCHEME),
                .authority = part(parsed.get(), CURLUPART_HOST)};
  const std::string port = part(parsed.get(), CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  if (!port.empty()) origin.authority += ":" + port;
  for (char& c : origin.authority) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return origin;
}

std::optional<std::string> resolve_url(const std::string& base, const std::string& location) {
  const UrlPtr parsed(curl_url());
  if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK)
    return std::nullopt;
  // A URL set on top of another one is resolved against it (curl_url_set(3)).
  if (curl_url_set(parsed.get(), CURLUPART_URL, location.c_str(), CURLU_URLENCODE) != CURLUE_OK)
    return std::nullopt;
  for (const auto unwanted :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_FRAGMENT}) {
    curl_url_set(parsed.get(), unwanted, nullptr, 0);
  }
  const std::string scheme = part(parsed.get(), CURLUPART_SCHEME);
  std::string url = part(parsed.get(), CURLUPART_URL);
  if ((scheme != "http" && scheme != "https") || url.empty()) return std::nullopt;
  return url;
}

std::string url_encode(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool is_unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                               (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
                               c == '~';
    if (is_unreserved) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += '%';
    encoded += digits[byte >> 4U];
    encoded += digits[byte & 0xFU];
  }
  return encoded;
}

}  // namespace daiv::images
