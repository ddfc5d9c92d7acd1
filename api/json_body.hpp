#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>

#include "api/context.hpp"
#include "api/exchange.hpp"
#include "api/schema.hpp"

namespace daiv::api {

// Reads and checks a JSON body in FastAPI's order: JSON text (422), key (403), then the fields
// (422). What is returned has no fault. `limit` is in bytes (413); without the right key
// Limits::max_unauthorised_bytes is.
boost::asio::awaitable<Json> read_json(Context& context, Exchange& exchange, const Schema& schema,
                                       std::uint64_t limit);

// Throws HttpFailure 422 with these errors.
[[noreturn]] void refuse(std::span<const ValidationError> errors);

}  // namespace daiv::api
