#pragma once

#include <string_view>

// The alphabets of every text that the broker builds a path, a mount option or an argument from.
// They hold no '/', no
// '.' alone, no ',' and no ':', so that a name stays one name wherever it is put.
namespace daiv::runtime {

// 32 lower-case hexadecimal digits, or a lower-case UUID with its dashes.
bool is_session_id(std::string_view text);
// Six of [a-z0-9].
bool is_layer_name(std::string_view text);
// "sha256:" and 64 lower-case hexadecimal digits.
bool is_diff_id(std::string_view text);
// The suffix of a docker-credential program: 1 to 64 of [a-z0-9_-], not led by '-'.
bool is_helper_name(std::string_view text);
// One to 63 of [a-zA-Z0-9-] per label, dots between, 64 bytes in all at most (sethostname(2)).
bool is_hostname(std::string_view text);

}  // namespace daiv::runtime
