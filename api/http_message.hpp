#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// An HTTP/1.1 request's head and an answer as plain values.
namespace daiv::api {

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

enum class HttpVersion : std::uint8_t { http_1_0, http_1_1 };

struct RequestHead {
  std::string method;
  std::string target;
  HttpVersion version = HttpVersion::http_1_1;
  HeaderFields fields;
  std::optional<std::uint64_t> content_length;  // empty also where the body comes in chunks
  bool has_body = false;
  bool keep_alive = false;
  bool expects_continue = false;

  // The first field of this name (case-insensitive); empty where there is none.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type;  // empty: no such header
  std::string body;
  HeaderFields fields;  // further ones
};

}  // namespace daiv::api
