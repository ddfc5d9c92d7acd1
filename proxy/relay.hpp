#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <string>

#include "proxy/channel.hpp"
#include "proxy/splice_pipe.hpp"

namespace daiv::proxy {

struct Traffic {
  std::uint64_t up = 0;    // towards the origin
  std::uint64_t down = 0;  // towards the client
};

// Passes bytes on unread, both ways, until both sides have ended, one has failed, or nothing has
// moved for `idle`. The end of one direction is passed on alone.
class Relay {
public:
  Relay(Channel& client, Channel& upstream, Traffic& traffic, std::chrono::milliseconds idle)
      : client_(client), upstream_(upstream), traffic_(traffic), idle_(idle) {}

  // One direction each, to be run side by side; `first` goes before what is read.
  boost::asio::awaitable<void> up(std::string first);
  boost::asio::awaitable<void> down(std::string first);

  // Both.
  boost::asio::awaitable<void> run(std::string first_up, std::string first_down);

  // Ends both directions at once.
  void cut() noexcept;

private:
  boost::asio::awaitable<void> pump(Channel& from, Channel& to, std::string first,
                                    std::uint64_t& count);
  // False where the direction is over.
  boost::asio::awaitable<bool> pass(Channel& to, std::size_t size);
  boost::asio::awaitable<bool> drain(SplicePipe& pipe, Channel& to);
  boost::asio::awaitable<bool> wait(Channel& from, Channel::Direction direction);

  Channel& client_;
  Channel& upstream_;
  Traffic& traffic_;
  std::chrono::milliseconds idle_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace daiv::proxy
