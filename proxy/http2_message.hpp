#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/answer.hpp"
#include "proxy/http2_session.hpp"
#include "proxy/http_head.hpp"
#include "proxy/request_target.hpp"

// Messages of HTTP/2 as those of HTTP/1.1, and back (RFC 9113 §8): in between they are judged and
// changed alike. Pure.
namespace daiv::proxy {

// A request with its :authority as Host, first. Refused where it has fields of a connection, a
// value that HTTP/1.1 could not carry, a Host beside another :authority, or no name at all. A
// length of its body stays a Content-Length; Transfer-Encoding is never there.
std::expected<RequestHead, HttpFault> read_http2_request(Http2Head head);

// An answer; a fault is the origin's.
std::expected<ResponseHead, HttpFault> read_http2_response(Http2Head head);

// The fields of a head that goes to an origin, Host as :authority.
std::vector<Field> make_http2_request(const RequestHead& head, Scheme scheme);

std::vector<Field> make_http2_response(const ResponseHead& head);

std::vector<Field> make_http2_answer(const Answer& answer);

// Trailers that may be passed on, without those called `dropped` (empty: none), as HTTP/2 has them.
std::vector<Field> make_http2_trailers(std::vector<Field> trailers, std::string_view dropped);

// Makes a request that came by HTTP/2 one of HTTP/1.1: one Cookie field (RFC 9113 §8.2.3), and a
// body that is framed.
enum class BodyPresence { none, some };
BodyFraming frame_for_http1(RequestHead& head, BodyPresence body);

// Whether the client takes trailers, which gRPC's origins ask for ("te: trailers").
bool takes_trailers(const RequestHead& head);

}  // namespace daiv::proxy
