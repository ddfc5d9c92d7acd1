#pragma once

#include <boost/asio/awaitable.hpp>

#include "proxy/request_exchange.hpp"

namespace daiv::proxy {

// Serves a client whose TLS has settled on HTTP/2, until either side ends the connection.
boost::asio::awaitable<void> serve_http2(ClientState& client);

}  // namespace daiv::proxy
