#pragma once

#include <boost/asio/awaitable.hpp>

#include "api/context.hpp"
#include "api/exchange.hpp"

// One function per kind of route; each sends the answer. They throw HttpFailure,
// sessions::SessionError and ClientGone; whatever else they throw is an internal error.
namespace daiv::api {

// Calls the function of exchange.route.
boost::asio::awaitable<void> handle(Context& context, Exchange& exchange);

boost::asio::awaitable<void> handle_open_route(Context& context,
                                               Exchange& exchange);  // health, version, docs…
boost::asio::awaitable<void> handle_create(Context& context, Exchange& exchange);
boost::asio::awaitable<void> handle_touch(Context& context, Exchange& exchange);
boost::asio::awaitable<void> handle_close(Context& context, Exchange& exchange);
boost::asio::awaitable<void> handle_egress(Context& context, Exchange& exchange);
boost::asio::awaitable<void> handle_run(Context& context, Exchange& exchange);
boost::asio::awaitable<void> handle_seed(Context& context, Exchange& exchange);
boost::asio::awaitable<void> handle_fs(Context& context, Exchange& exchange);

}  // namespace daiv::api
