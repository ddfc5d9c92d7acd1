#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace daiv::api {

// Decodes as binascii.a2b_base64 does, with its error texts: white space is passed over, and what
// follows complete padding is ignored. Any other character outside of the standard alphabet is an
// error (binascii would drop it).
//
// A file's content is large: it is decoded in its own place, and checked without being decoded.
std::expected<std::string, std::string> decode_base64(std::string text);
std::expected<void, std::string> check_base64(std::string_view text);

// With padding, in one line.
std::string encode_base64(std::string_view bytes);

}  // namespace daiv::api
