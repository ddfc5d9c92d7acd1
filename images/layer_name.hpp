#pragma once

#include <string>
#include <string_view>

namespace daiv::images {

// Names of layer directories: six of [a-z0-9], so short that those of 500 layers fit one page of
// mount options.
inline constexpr std::size_t layer_name_length = 6;

// A random name (getrandom(2)); the caller sees to it that it is new. Throws os::Error.
std::string make_layer_name();

[[nodiscard]] bool is_layer_name(std::string_view text) noexcept;

}  // namespace daiv::images
