#include "proxy/detail/nghttp2_handle.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "proxy/http2_session.hpp"
#include "wire/ascii.hpp"

namespace daiv::proxy {

void check_nghttp2(int result, std::string_view call) {
  if (result != 0)
    throw std::runtime_error(fmt::format("{}: {}", call, ::nghttp2_strerror(result)));
}

std::unique_ptr<nghttp2_option, Nghttp2Delete> make_nghttp2_options() {
  nghttp2_option* made = nullptr;
  check_nghttp2(::nghttp2_option_new(&made), "nghttp2_option_new");
  std::unique_ptr<nghttp2_option, Nghttp2Delete> option(made);
  // Windows open when the other side has taken what came, not when it came.
  ::nghttp2_option_set_no_auto_window_update(made, 1);
  ::nghttp2_option_set_max_send_header_block_length(made, max_decoded_head_bytes);
  // What a peer that resets its own requests at once costs (CVE-2023-44487).
  ::nghttp2_option_set_stream_reset_rate_limit(made, http2_reset_burst, http2_resets_per_second);
  return option;
}

std::vector<nghttp2_nv> borrow_fields(const std::vector<Field>& fields,
                                      std::string_view secret_name) {
  std::vector<nghttp2_nv> pairs;
  pairs.reserve(fields.size());
  for (const auto& [name, value] : fields) {
    const bool is_secret = !secret_name.empty() && wire::equal_ignoring_case(name, secret_name);
    const auto bytes = [](const std::string& text) {
      return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
    };
    pairs.push_back(
        {bytes(name), bytes(value), name.size(), value.size(),
         static_cast<std::uint8_t>(is_secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE)});
  }
  return pairs;
}

}  // namespace daiv::proxy
