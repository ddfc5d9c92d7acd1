#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstdint>
#include <memory>

#include "api/extensions.hpp"
#include "api/settings.hpp"
#include "sessions/session_service.hpp"

namespace daiv::api {

// The HTTP server. All of it runs on `executor`, which one thread runs; that thread never blocks:
// what takes long goes to `pool`. The service and the pool must outlive it, and run() must have
// returned before it is destroyed.
class Server {
public:
  // Listens as the settings say. Throws std::runtime_error (boost's and std's system_error are
  // that) where it can't, or where a certificate, key or socket given to it is no good.
  Server(ServerSettings settings, sessions::SessionService& service,
         boost::asio::any_io_executor executor, boost::asio::thread_pool& pool,
         Extensions extensions = {});
  ~Server();

  // Serves until stop(): then takes no further connections, ends idle ones, and returns when the
  // requests in flight are answered, or cancelled after Timeouts::drain.
  boost::asio::awaitable<void> run();

  // May be called more than once, on the executor's thread.
  void stop();

  // The TCP port that is listened on; 0 where none is.
  [[nodiscard]] std::uint16_t port() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::api
