#include "images/layer_name.hpp"

#include <sys/random.h>

#include <algorithm>

#include "os/error.hpp"

namespace daiv::images {

namespace {

constexpr std::string_view alphabet = "abcdefghijklmnopqrstuvwxyz0123456789";

}  // namespace

std::string make_layer_name() {
  std::string name;
  while (name.size() < layer_name_length) {
    unsigned char byte = 0;
    os::check(os::retry_eintr([&] { return ::getrandom(&byte, 1, 0); }), "getrandom", "layer name");
    // 252 is the largest multiple of 36 below 256: every letter is as likely as any other.
    if (byte < 252) name += alphabet[byte % alphabet.size()];
  }
  return name;
}

bool is_layer_name(std::string_view text) noexcept {
  return text.size() == layer_name_length && std::ranges::all_of(text, [](char letter) {
           return alphabet.find(letter) != std::string_view::npos;
         });
}

}  // namespace daiv::images
