#include "proxy/forwarded_head.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/ascii.hpp"

namespace daiv::proxy {
namespace {

constexpr std::array about_connection{"connection", "keep-alive",       "te",
                                      "upgrade",    "proxy-connection", "expect"};

// What a Connection field must not take out: without them the message would be another one.
constexpr std::array untouchable{"host", "content-length", "transfer-encoding", "trailer"};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::ranges::any_of(
      names, [&](const auto& other) { return wire::equal_ignoring_case(name, other); });
}

bool is_hop_by_hop(std::string_view name) {
  return contains(about_connection, name) || wire::equal_ignoring_case(name, "proxy-authorization");
}

void remove_hop_by_hop(std::vector<Field>& fields) {
  const auto named = list_of(fields, "Connection");
  std::erase_if(fields, [&](const Field& field) {
    if (is_hop_by_hop(field.name)) return true;
    return contains(named, field.name) && !contains(untouchable, field.name);
  });
}

// For a message that changes protocols these two stay where they were.
void keep_upgrade(std::vector<Field>& fields) {
  const auto named = list_of(fields, "Connection");
  bool connection_kept = false;
  std::erase_if(fields, [&](const Field& field) {
    if (wire::equal_ignoring_case(field.name, "Upgrade")) return false;
    if (wire::equal_ignoring_case(field.name, "Connection"))
      return std::exchange(connection_kept, true);
    if (is_hop_by_hop(field.name)) return true;
    return contains(named, field.name) && !contains(untouchable, field.name);
  });
  for (Field& field : fields)
    if (wire::equal_ignoring_case(field.name, "Connection")) field.value = "Upgrade";
}

}  // namespace

Upgrade find_upgrade(const RequestHead& head, const BodyFraming& body) {
  const bool asks = contains(list_of(head.fields, "Connection"), "upgrade");
  const auto protocols = list_of(head.fields, "Upgrade");
  const bool is_websocket = asks && head.minor_version == 1 && head.method == "GET" &&
                            body.kind == BodyFraming::Kind::none && protocols.size() == 1 &&
                            protocols.front() == "websocket";
  return is_websocket ? Upgrade::websocket : Upgrade::none;
}

bool is_persistent(const std::vector<Field>& fields, int minor_version) {
  return minor_version == 1 && !contains(list_of(fields, "Connection"), "close");
}

bool expects_continue(const RequestHead& head) {
  return head.minor_version == 1 && contains(list_of(head.fields, "Expect"), "100-continue");
}

RequestHead plan_request(RequestHead head, const Destination& destination, Upgrade upgrade,
                         const Secret* secret) {
  if (upgrade == Upgrade::websocket)
    keep_upgrade(head.fields);
  else
    remove_hop_by_hop(head.fields);
  head.target = destination.path;
  head.minor_version = 1;
  if (values_of(head.fields, "Host").empty()) {  // HTTP/1.0 with an absolute target
    const auto& [host, port] = destination.authority;
    const bool is_default = port == (destination.scheme == Scheme::https ? 443 : 80);
    const std::string text =
        is_default ? host.in_url() : host.in_url() + ":" + std::to_string(port);
    head.fields.insert(head.fields.begin(), Field{"Host", text});
  }
  if (secret != nullptr) {
    remove_field(head.fields, secret->header);
    head.fields.push_back(Field{secret->header, secret->value});
  }
  return head;
}

ResponseHead plan_response(ResponseHead head, Upgrade upgrade, int client_minor_version,
                           Persistence persistence) {
  if (upgrade == Upgrade::websocket)
    keep_upgrade(head.fields);
  else
    remove_hop_by_hop(head.fields);
  remove_field(head.fields, "Proxy-Authenticate");
  remove_field(head.fields, "Proxy-Authentication-Info");
  if (client_minor_version == 0) remove_field(head.fields, "Transfer-Encoding");
  head.minor_version = 1;
  if (persistence == Persistence::close) head.fields.push_back(Field{"Connection", "close"});
  return head;
}

bool is_idempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "PUT" ||
         method == "DELETE";
}

bool is_sendable(const Secret& secret) {
  return wire::is_token(secret.header) && is_field_value(secret.value) &&
         !contains(about_connection, secret.header) && !contains(untouchable, secret.header);
}

}  // namespace daiv::proxy
