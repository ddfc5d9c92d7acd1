#pragma once

#include <optional>
#include <string>

#include "api/json_value.hpp"
#include "api/router.hpp"
#include "sessions/fs_messages.hpp"

// File operations between their JSON and the messages that a session understands.
namespace daiv::api {

// The request of an fs_* route. `body` has passed that route's model; its large texts are moved out
// of it.
sessions::fs::FsRequest fs_request(RouteId route, Json& body);

sessions::fs::FsOperation fs_operation(const sessions::fs::FsRequest& request);

// Why the request's path is refused, or nothing.
std::optional<sessions::fs::FsError> check_request_path(const sessions::fs::FsRequest& request);

// The reply of that operation which says that it failed.
sessions::fs::FsReply failed_reply(sessions::fs::FsOperation operation,
                                   sessions::fs::FsError error);

// The JSON body of an answer; names and texts that are no UTF-8 get U+FFFD.
std::string fs_reply_json(const sessions::fs::FsReply& reply);

}  // namespace daiv::api
