#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "sessions/redis/connection.hpp"

namespace daiv::sessions::redis {

// Commands to one Redis over as many connections as there are commands under way; some stay open
// for the next ones. Used on the io thread. A Redis that is away is tried anew by each command, so
// nothing has to be done when it is back. Going away and coming back are logged, once each.
class Client {
public:
  explicit Client(Url url);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Whole or with RedisError, within seconds; the caller's cancellation does not interrupt it. An
  // error may come after Redis has carried out the command. Never an error reply: that is thrown.
  boost::asio::awaitable<Reply> command(std::vector<std::string> words);

private:
  enum class State { unknown, there, away };

  boost::asio::awaitable<Reply> exchange(std::vector<std::string> words);
  boost::asio::awaitable<std::unique_ptr<Connection>> take_connection();
  void came();
  [[noreturn]] void went(const std::string& why);

  Connector connector_;
  std::vector<std::unique_ptr<Connection>> idle_;
  State state_ = State::unknown;
};

}  // namespace daiv::sessions::redis
