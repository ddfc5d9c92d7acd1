#include "http2_peer.hpp"

#include <algorithm>
#include <utility>

namespace daiv::proxy::testing {

Http2Peer connect_http2(ProxyRig& rig, const std::string& name, std::uint16_t port) {
  return {rig.connect_tls(name, port, "h2"), Http2Role::client};
}

std::string value_of(const std::vector<Field>& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? std::string() : found->value;
}

bool Http2Peer::flush() {
  for (;;) {
    const std::string output = session_.take_output(65536);
    if (output.empty()) return session_.broken().empty();
    if (!peer_.send(output)) return false;
  }
}

bool Http2Peer::run_until(const std::function<bool()>& done) {
  for (;;) {
    if (!flush()) return done();
    if (done()) return true;
    flush();
    const std::string bytes = peer_.receive();
    if (bytes.empty() || !session_.feed(bytes)) return done();
  }
}

std::int32_t Http2Peer::request(std::vector<Field> fields, bool is_last) {
  const auto id = session_.open_stream(fields, is_last, {});
  flush();
  return id.value_or(-1);
}

std::int32_t Http2Peer::get(const std::string& authority, const std::vector<Field>& more) {
  std::vector<Field> fields{
      {":method", "GET"}, {":scheme", "https"}, {":authority", authority}, {":path", "/x"}};
  std::ranges::copy(more, std::back_inserter(fields));
  return request(std::move(fields));
}

Http2Peer::Answer Http2Peer::finish(std::int32_t id) {
  Answer answer;
  run_until([&] {
    Http2Stream* stream = session_.find(id);
    if (stream == nullptr) return true;
    answer.body += std::exchange(stream->received, {});
    session_.consume(id, stream->unconsumed);
    flush();
    return stream->ended || stream->closed;
  });
  Http2Stream* stream = session_.find(id);
  if (stream == nullptr) return answer;
  if (!stream->heads.empty()) {
    answer.fields = stream->heads.back().fields;
    answer.status = std::atoi(value_of(answer.fields, ":status").c_str());
  }
  answer.trailers = stream->trailers;
  answer.whole = stream->ended;
  answer.error = stream->error;
  session_.forget(id);
  flush();
  return answer;
}

std::function<void(Peer&)> serve_http2(Http2Handler handler) {
  return [handler = std::move(handler)](Peer& socket) {
    Http2Peer peer(std::move(socket), Http2Role::server);
    std::map<std::int32_t, std::string> bodies;
    std::vector<std::int32_t> done;
    peer.run_until([&] {
      Http2Session& session = peer.session();
      for (const std::int32_t id : session.take_changed()) {
        Http2Stream* stream = session.find(id);
        if (stream == nullptr) continue;
        bodies[id] += std::exchange(stream->received, {});
        session.consume(id, stream->unconsumed);
        if (stream->closed) {
          session.forget(id);
        } else if (stream->ended && !stream->heads.empty()) {
          const Http2Head head = std::move(stream->heads.front());
          stream->heads.pop_front();
          handler(session, id, head, std::exchange(bodies[id], {}));
        }
      }
      peer.flush();
      return false;
    });
  };
}

void echo_http2(Http2Session& session, std::int32_t id, const Http2Head& head, std::string body) {
  std::string text;
  for (const auto& [name, value] : head.fields) text += name + ": " + value + "\n";
  const Http2Stream* stream = session.find(id);
  text += "\n" + body;
  for (const auto& [name, value] : stream->trailers) text += "|" + name + ": " + value;
  session.send_head(id, {{":status", "200"}, {"x-origin", "yes"}}, false);
  session.send_body(id, std::move(text));
  session.end_body(id, {});
}

}  // namespace daiv::proxy::testing
