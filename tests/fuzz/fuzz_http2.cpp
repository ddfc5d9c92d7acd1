#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "input.hpp"
#include "proxy/forwarded_head.hpp"
#include "proxy/http2_message.hpp"
#include "proxy/http2_session.hpp"

namespace {

using namespace daiv;
using namespace daiv::proxy;

// What goes to an origin of HTTP/1.1 must read as the same one request.
std::string forward(Http2Head head) {
  const auto body = head.is_last ? BodyPresence::none : BodyPresence::some;
  const auto request = read_http2_request(std::move(head));
  if (!request) return "refused";
  const auto destination = find_destination(*request, Scheme::https);
  if (!destination) return "refused";
  const Secret secret{"Authorization", "Bearer x"};
  RequestHead planned = plan_request(*request, *destination, Upgrade::none, &secret);
  for (const auto& [name, value] : make_http2_request(planned, Scheme::https))
    fuzz::require(is_field_value(value));
  const BodyFraming framing = frame_for_http1(planned, body);
  const std::string text = to_text(planned);
  const auto again = parse_request_head(text);
  fuzz::require(again.has_value());
  const auto framing_again = plan_request_body(*again);
  fuzz::require(framing_again.has_value());
  // A length of nothing is no body either way.
  fuzz::require(framing_again->length == framing.length &&
                (framing_again->kind == BodyFraming::Kind::chunked) ==
                    (framing.kind == BodyFraming::Kind::chunked));
  const auto destination_again = find_destination(*again, Scheme::https);
  fuzz::require(destination_again && destination_again->authority == destination->authority);
  fuzz::require(values_of(again->fields, "authorization").size() == 1);
  return text;
}

// What a peer's bytes come to when they arrive in pieces of `step`; each message is answered.
std::string read(std::string_view bytes, std::size_t step, Http2Role role) {
  Http2Session session(role);
  std::string out;
  if (role == Http2Role::client) {
    const auto opened = session.open_stream(
        {{":method", "GET"}, {":scheme", "https"}, {":authority", "a.test"}, {":path", "/"}}, true,
        {});
    fuzz::require(opened.has_value());
  }
  std::size_t held = 0;
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    const bool going = session.feed(piece);
    held = 0;
    for (const std::int32_t id : session.take_changed()) {
      Http2Stream* stream = session.find(id);
      if (stream == nullptr) continue;
      held += stream->received.size();
      fuzz::require(stream->received.size() <= http2_stream_window);
      if (stream->heads.empty()) continue;
      Http2Head head = std::move(stream->heads.front());
      stream->heads.clear();
      if (role == Http2Role::client) {
        const auto response = read_http2_response(std::move(head));
        out += response ? to_text(plan_response(*response, Upgrade::none, 1, Persistence::keep))
                        : std::string("bad");
        continue;
      }
      out += forward(std::move(head));
      session.send_head(id, {{":status", "200"}}, false);
      session.send_body(id, "answer");
      session.end_body(id, {{"x-end", "1"}});
    }
    fuzz::require(held <= http2_connection_window);
    fuzz::require(session.stream_count() <= http2_max_kept_streams);
    session.take_output(1U << 20);
    if (!going || !session.is_alive()) break;
  }
  return out;
}

}  // namespace

// The first byte selects the side; a server's clients get their preface for nothing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes = fuzz::text_of(data, size);
  const auto role = fuzz::take_selector(bytes) % 2 == 0 ? Http2Role::server : Http2Role::client;
  std::string all(role == Http2Role::server ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "");
  all += bytes;
  read(all, all.size() + 1, role);
  read(all, 1, role);
  return 0;
}
