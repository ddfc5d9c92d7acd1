#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "api/api_key.hpp"
#include "api/context.hpp"
#include "api/exchange.hpp"
#include "api/schema.hpp"
#include "sessions/on_pool.hpp"

namespace daiv::api {

// A body as it came, and what it takes to read it.
struct ReceivedBody {
  std::string text;
  bool is_json = false;
  KeyVerdict key = KeyVerdict::missing;
  const Schema* schema = nullptr;
};

// Reads the bytes of a body. `limit` is in bytes (413); without the right key
// Limits::max_unauthorised_bytes is.
boost::asio::awaitable<ReceivedBody> receive_body(Context& context, Exchange& exchange,
                                                  const Schema& schema, std::uint64_t limit);

// Reads and checks JSON in FastAPI's order: its text (422), key (403), then the fields (422). What
// is returned has no fault.
Json parse_body(ReceivedBody body);

// Where a body of that size is read: null for the io thread itself.
boost::asio::thread_pool* pool_for_body(const Context& context, std::size_t bytes);

// What `convert`, which takes a Json&, makes of the body. Both the reading and the converting of
// one that is not small are done on a pool, while the io thread serves others.
template <typename Convert>
boost::asio::awaitable<std::invoke_result_t<Convert&, Json&>> read_json_as(Context& context,
                                                                           Exchange& exchange,
                                                                           const Schema& schema,
                                                                           std::uint64_t limit,
                                                                           Convert convert) {
  ReceivedBody body = co_await receive_body(context, exchange, schema, limit);
  boost::asio::thread_pool* const pool = pool_for_body(context, body.text.size());
  auto work = [body = std::move(body), convert = std::move(convert)]() mutable {
    Json value = parse_body(std::move(body));
    return convert(value);
  };
  if (pool == nullptr) co_return work();
  auto converted = co_await sessions::on_pool(*pool, std::move(work));
  co_return converted;
}

// The body as it is.
boost::asio::awaitable<Json> read_json(Context& context, Exchange& exchange, const Schema& schema,
                                       std::uint64_t limit);

// Throws HttpFailure 422 with these errors.
[[noreturn]] void refuse(std::span<const ValidationError> errors);

}  // namespace daiv::api
