#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "proxy/http2_link.hpp"
#include "proxy/http2_message.hpp"
#include "proxy/http2_upstreams.hpp"

namespace daiv::proxy {

struct OriginHead {
  ResponseHead head;
  bool is_last = false;  // no body follows
};

// Why no answer came: 502 or 504, with a text for a person.
struct OriginFault {
  HttpFault fault;
  // What the origin may have done with the request.
  enum class Work { none, unlikely, possible } work = Work::possible;
};

// One request on its way to an origin and its answer, whatever the origin speaks. One coroutine
// sends while another reads. settle() is its end.
class OriginStream {
public:
  OriginStream() = default;
  virtual ~OriginStream() = default;
  OriginStream(const OriginStream&) = delete;
  OriginStream& operator=(const OriginStream&) = delete;

  // The body, each returning when the origin's side has taken it; false where it does not.
  virtual boost::asio::awaitable<bool> send(std::string data, std::chrono::milliseconds limit) = 0;
  virtual boost::asio::awaitable<bool> finish(std::vector<Field> trailers,
                                              std::chrono::milliseconds limit) = 0;

  // The next head, interim ones too.
  virtual boost::asio::awaitable<std::expected<OriginHead, OriginFault>> next_head(
      std::chrono::milliseconds limit) = 0;
  virtual boost::asio::awaitable<Http2Link::Piece> read(std::chrono::milliseconds limit) = 0;
  // What was read has gone on.
  virtual void consume(std::size_t count) = 0;
  // Behind the body that has ended.
  [[nodiscard]] virtual std::vector<Field> trailers() = 0;

  // Ends both directions at once; who waits is woken.
  virtual void cancel() = 0;
  // The exchange is over; after one that was `whole` a connection may serve another.
  enum class Outcome { whole, broken };
  virtual void settle(Outcome outcome) = 0;
};

// Sends `head`, which is planned already, on a connection of `lease`. Null where an HTTP/2
// connection takes no more streams: get another.
boost::asio::awaitable<std::unique_ptr<OriginStream>> open_origin_stream(
    std::shared_ptr<ProxyCore> core, std::shared_ptr<ProxiedSession> session,
    Http2Upstreams::Lease lease, RequestHead head, BodyPresence body, std::string secret_name);

}  // namespace daiv::proxy
