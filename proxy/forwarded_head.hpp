#pragma once

#include <string>

#include "proxy/http_head.hpp"
#include "proxy/policy.hpp"
#include "proxy/request_target.hpp"

// What becomes of a head on its way. Pure.
namespace daiv::proxy {

// Whether the connection is to become a WebSocket's (RFC 6455 §4.1). Every other upgrade, h2c
// first of all, would let bytes through that nobody judges: its fields are removed.
enum class Upgrade { none, websocket };
Upgrade find_upgrade(const RequestHead& head, const BodyFraming& body);

// Whether the sender keeps the connection for another message (RFC 9112 §9.3).
bool is_persistent(const std::vector<Field>& fields, int minor_version);

// Whether the client waits for "100 Continue" (RFC 9110 §10.1.1); the proxy answers it.
bool expects_continue(const RequestHead& head);

// A head as it goes to the origin: in origin form, without hop-by-hop fields (RFC 9110 §7.6.1) and
// those for a proxy, else in its spelling and order. With a secret every field of its name is
// removed, and it is set once, last.
RequestHead plan_request(RequestHead head, const Destination& destination, Upgrade upgrade,
                         const Secret* secret);

// An answer's head as it goes to the client. `closes`: the connection ends with this answer.
enum class Persistence { keep, close };
ResponseHead plan_response(ResponseHead head, Upgrade upgrade, int client_minor_version,
                           Persistence persistence);

// RFC 9110 §9.2.2; only these are sent again when a kept connection turns out to be closed.
bool is_idempotent(std::string_view method);

// Whether a secret can be a field at all: its name a token, its value without control characters,
// and nothing that says where a message goes, where it ends, or what becomes of its connection.
bool is_sendable(const Secret& secret);

}  // namespace daiv::proxy
