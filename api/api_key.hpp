#pragma once

#include <string_view>

#include "api/http_message.hpp"

namespace daiv::api {

enum class KeyVerdict { right, missing, wrong };

// Compares the X-API-Key header with `key` in a time that depends on neither's content.
KeyVerdict check_api_key(const RequestHead& head, std::string_view key);

// Throws HttpFailure 403 with the reason unless the key is right.
void require_key(KeyVerdict verdict);

}  // namespace daiv::api
