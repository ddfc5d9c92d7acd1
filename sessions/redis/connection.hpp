#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>
#include <vector>

#include "sessions/redis/reply.hpp"
#include "sessions/redis/url.hpp"

namespace daiv::sessions::redis {

// One connection that is logged in. One command at a time.
class Connection {
public:
  virtual ~Connection() = default;
  virtual boost::asio::awaitable<Reply> exchange(std::vector<std::string> command) = 0;
  // Whether the next command may go over it: the peer has closed it neither, nor sent anything
  // unasked.
  [[nodiscard]] virtual bool is_quiet() = 0;
};

// How connections are made; with TLS it holds the certificates to trust.
class Connector {
public:
  // Throws RedisError where the file of certificates can't be read.
  explicit Connector(Url url);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  // Resolves, connects, shakes hands, logs in, chooses the database. Throws RedisError,
  // boost::system::system_error.
  boost::asio::awaitable<std::unique_ptr<Connection>> connect();
  [[nodiscard]] const Url& url() const noexcept { return url_; }

private:
  struct Trust;

  Url url_;
  std::unique_ptr<Trust> trust_;  // empty: without TLS
};

}  // namespace daiv::sessions::redis
