#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>

#include "api/context.hpp"
#include "api/stream.hpp"

namespace daiv::api {

// Whether the server takes further requests; shared by all connections.
struct Lifecycle {
  bool stopping = false;
};

// Serves one client until it leaves, fails, or the server stops. Runs on the stream's executor.
boost::asio::awaitable<void> serve_connection(std::unique_ptr<Stream> stream, Context& context,
                                              const Lifecycle& lifecycle, bool& busy);

}  // namespace daiv::api
