#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "proxy/http2_session.hpp"
#include "proxy_rig.hpp"
#include "test_origin.hpp"

namespace daiv::proxy::testing {

// As ALPN has them.
inline const std::string only_http2("\x02h2");
inline const std::string only_http1("\x08http/1.1");

// A blocking HTTP/2 connection, either side.
class Http2Peer {
public:
  Http2Peer(Peer peer, Http2Role role) : peer_(std::move(peer)), session_(role) {}

  struct Answer {
    int status = 0;  // 0: none came
    std::vector<Field> fields;
    std::string body;
    std::vector<Field> trailers;
    bool whole = false;
    Http2Error error = Http2Error::none;
  };

  // Starts a request; a body follows by session() where `is_last` is false.
  std::int32_t request(std::vector<Field> fields, bool is_last = true);
  // A GET of the host, with more fields.
  std::int32_t get(const std::string& authority, const std::vector<Field>& more = {});
  // Until the stream is over; its bytes are consumed as they come.
  Answer finish(std::int32_t id);
  // Moves frames until `done` says so; false where the connection ends before.
  bool run_until(const std::function<bool()>& done);
  // Sends what is to be sent.
  bool flush();

  Http2Session& session() { return session_; }
  Peer& peer() { return peer_; }

private:
  Peer peer_;
  Http2Session session_;
};

// A client of HTTP/2 with the host, through the proxy.
Http2Peer connect_http2(ProxyRig& rig, const std::string& name, std::uint16_t port);

std::string value_of(const std::vector<Field>& fields, std::string_view name);

// What an origin does with a request that is whole.
using Http2Handler =
    std::function<void(Http2Session&, std::int32_t, const Http2Head&, std::string)>;
// A script for TestOrigin.
std::function<void(Peer&)> serve_http2(Http2Handler handler);

// Answers with what it received, fields and body, as the body.
void echo_http2(Http2Session& session, std::int32_t id, const Http2Head& head, std::string body);

}  // namespace daiv::proxy::testing
