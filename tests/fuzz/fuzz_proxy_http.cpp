#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/forwarded_head.hpp"
#include "proxy/http_body.hpp"
#include "proxy/http_head.hpp"
#include "proxy/request_target.hpp"

namespace {

using namespace daiv::proxy;

// What goes to the origin for a request's head must read as the same request again.
std::string forward(const RequestHead& head) {
  const auto body = plan_request_body(head);
  const auto destination = find_destination(head, Scheme::http);
  if (!body || !destination) return "refused";
  const Upgrade upgrade = find_upgrade(head, *body);
  const Secret secret{"Authorization", "Bearer x"};
  const std::string text = to_text(plan_request(head, *destination, upgrade, &secret));
  const auto again = parse_request_head(text);
  if (!again) std::abort();
  const auto body_again = plan_request_body(*again);
  const auto destination_again = find_destination(*again, destination->scheme);
  const bool same = body_again && body_again->kind == body->kind &&
                    body_again->length == body->length && destination_again &&
                    destination_again->authority == destination->authority &&
                    values_of(again->fields, "authorization").size() == 1;
  if (!same) std::abort();
  return text;
}

// The requests that bytes hold when they come in pieces of `step`.
std::string read(std::string_view bytes, std::size_t step) {
  std::string out;
  std::string buffer;
  const auto more = [&] {
    if (bytes.empty()) return false;
    buffer += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
    return true;
  };
  for (;;) {
    HeadScanner scanner(HeadScanner::Kind::request);
    std::size_t size = 0;
    for (;;) {
      const auto end = scanner.scan(buffer);
      if (!end) return out + '!';
      size = *end;
      if (size > 0) break;
      if (!more()) return out;
    }
    const auto head = parse_request_head(std::string_view(buffer).substr(0, size));
    buffer.erase(0, size);
    if (!head) return out + '!';
    out += forward(*head);
    const auto framing = plan_request_body(*head);
    if (!framing) return out + '!';
    BodyReader reader(*framing);
    std::string body;
    while (!reader.done()) {
      const auto used = reader.feed(buffer, body);
      if (!used) return out + '!';
      buffer.erase(0, *used);
      if (!reader.done() && *used == 0 && !more()) return out;
    }
    out += '[' + body + ']' + make_last_chunk(reader.trailers());
  }
}

}  // namespace

// How bytes are cut must not change which requests they are: that is what smuggling lives on.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read(bytes, size + 1);
  if (read(bytes, 1) != whole || read(bytes, 7) != whole) std::abort();
  const auto response = parse_response_head(bytes);
  if (response && plan_response_body(*response, "GET")) {
    const auto text = to_text(plan_response(*response, Upgrade::none, 1, Persistence::keep));
    if (!parse_response_head(text)) std::abort();
  }
  return 0;
}
