#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace daiv::api {

// The bytes of a JSON body as UTF-8 without a byte order mark (json.detect_encoding, then
// bytes.decode); empty where they are no text in that encoding. The view is into `body`, or into
// `storage` where the text had to be converted.
std::optional<std::string_view> json_text(std::string_view body, std::string& storage);

}  // namespace daiv::api
