#pragma once

#include <nghttp2/nghttp2.h>

#include <memory>
#include <string_view>
#include <vector>

#include "proxy/http_head.hpp"

// What a session of nghttp2 is made of: for http2_session.cpp alone, so that its header stays
// there.
namespace daiv::proxy {

// A head that goes on and on behind its limit ends the connection: its decoding costs, even where
// nothing of it is kept.
inline constexpr std::size_t max_decoded_head_bytes = 4 * max_head_bytes;

// Throws std::runtime_error that names `call` where the library says that it failed.
void check_nghttp2(int result, std::string_view call);

struct Nghttp2Delete {
  void operator()(nghttp2_option* made) const noexcept { ::nghttp2_option_del(made); }
  void operator()(nghttp2_session_callbacks* made) const noexcept {
    ::nghttp2_session_callbacks_del(made);
  }
};

std::unique_ptr<nghttp2_option, Nghttp2Delete> make_nghttp2_options();

// Views of `fields`, which must outlive them: the library copies names and values. The value of a
// field with the name `secret_name` is kept out of HPACK's tables (RFC 7541 §7.1.3).
std::vector<nghttp2_nv> borrow_fields(const std::vector<Field>& fields,
                                      std::string_view secret_name);

}  // namespace daiv::proxy
