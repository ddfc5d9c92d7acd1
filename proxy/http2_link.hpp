#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "proxy/channel.hpp"
#include "proxy/http2_session.hpp"
#include "proxy/proxied_session.hpp"
#include "proxy/wakeup.hpp"

namespace daiv::proxy {

// A channel that speaks HTTP/2, and what one can wait for on its streams. Bytes are moved by run();
// all others only wait. A stream's user calls forget() when done with it. Confined to the proxy's
// thread; borrows all that it is made of.
class Http2Link {
public:
  // A new request of the peer, a stream to be served and forgotten; empty: one that was malformed.
  using OnRequest = std::function<void(std::optional<std::int32_t>)>;

  Http2Link(ProxyCore& core, ProxiedSession& session, Channel& channel, Http2Role role,
            OnRequest on_request = {});

  // Until the connection is over, then all its streams are closed. `received` came before.
  boost::asio::awaitable<void> run(std::string received);

  [[nodiscard]] bool takes_streams() const { return !over_ && !session_.is_draining(); }
  [[nodiscard]] Http2Stream* find(std::int32_t id) { return session_.find(id); }

  // The next head; empty where the stream is closed or `limit` has passed.
  boost::asio::awaitable<std::optional<Http2Head>> next_head(std::int32_t id,
                                                             std::chrono::milliseconds limit);

  struct Piece {
    enum class Kind { data, end, closed, timeout } kind = Kind::closed;
    std::string data;
  };
  // What has arrived of a body, at once.
  boost::asio::awaitable<Piece> read(std::int32_t id, std::chrono::milliseconds limit);
  // What was read has gone on; the peer may send as much again.
  void consume(std::int32_t id, std::size_t count);

  // Returns when all of it is framed, which is when the peer's window lets it; false where it is
  // not by `limit` or the stream is closed.
  boost::asio::awaitable<bool> write(std::int32_t id, std::string data,
                                     std::chrono::milliseconds limit);
  // Ends our side; returns as write() does.
  boost::asio::awaitable<bool> finish(std::int32_t id, std::vector<Field> trailers,
                                      std::chrono::milliseconds limit);

  // Something about the stream is new.
  boost::asio::awaitable<void> wait_for_change(std::int32_t id);

  // As Http2Session has them.
  std::optional<std::int32_t> open_stream(const std::vector<Field>& fields, bool is_last,
                                          const std::string& secret_name);
  void send_interim(std::int32_t id, const std::vector<Field>& fields);
  void send_head(std::int32_t id, const std::vector<Field>& fields, bool is_last);
  void reset(std::int32_t id, Http2Error error);
  void forget(std::int32_t id);

private:
  class Waiting;

  boost::asio::awaitable<void> guard(boost::asio::awaitable<void> direction);
  boost::asio::awaitable<void> read_frames(std::string received);
  boost::asio::awaitable<void> write_frames();
  [[nodiscard]] std::chrono::milliseconds read_limit() const;
  void end();
  // Tells everybody what has changed.
  void spread();
  void widen_for(std::int32_t id, const Http2Stream& stream);
  boost::asio::awaitable<bool> wait(std::int32_t id, std::chrono::steady_clock::time_point until);

  ProxyCore& core_;
  ProxiedSession& proxied_;
  Channel& channel_;
  Http2Role role_;
  OnRequest on_request_;
  Http2Session session_;
  Wakeup output_;
  std::multimap<std::int32_t, Wakeup*> waiting_;
  std::int32_t newest_ = 0;  // request that was announced
  std::set<std::int32_t> heavy_;
  std::deque<BufferShare> shares_;  // one for each heavy stream that there was at a time
  std::chrono::steady_clock::time_point idle_since_ = std::chrono::steady_clock::now();
  bool over_ = false;
};

}  // namespace daiv::proxy
