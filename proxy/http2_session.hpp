#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/http_head.hpp"

struct nghttp2_session;  // whose header stays in the source

// The frames of one HTTP/2 connection (RFC 9113): bytes in, what became of the streams out, and the
// other way round. Knows no socket; nghttp2 does the framing, HPACK and the windows.
namespace daiv::proxy {

inline constexpr std::uint32_t http2_max_streams = 100;           // open at a time
inline constexpr std::size_t http2_max_kept_streams = 200;        // those still worked on included
inline constexpr std::uint32_t http2_stream_window = 256U << 10;  // of an answer, not consumed yet
// Of a request's body: no more than its client's socket takes at once. libcurl 7.88 (Debian 12)
// sends what did not fit there a second time, and git pushes what is no pack.
inline constexpr std::uint32_t http2_upload_window = 32U << 10;
inline constexpr std::size_t http2_connection_window = 65'535;  // the protocol's own (§6.9.2)
inline constexpr std::size_t http2_max_heads_bytes = 1U << 20;  // of all streams that are there
inline constexpr std::size_t http2_max_queued_frames = 4096;    // that the peer does not take
inline constexpr std::uint64_t http2_reset_burst = 500;         // streams reset by the peer …
inline constexpr std::uint64_t http2_resets_per_second = 20;    // … and thereafter

// Error codes (RFC 9113 §7).
enum class Http2Error : std::uint32_t {
  none = 0x0,
  protocol = 0x1,
  internal = 0x2,
  refused_stream = 0x7,  // not worked on: may be sent again
  cancel = 0x8,
  enhance_your_calm = 0xb,
};

struct Http2Head {
  std::vector<Field> fields;  // the pseudo-header fields among them, as they came
  bool is_last = false;       // the stream's side ends with it
  HttpFault fault;            // what stands against it; no text: nothing
};

struct Http2Stream {
  std::deque<Http2Head> heads;  // not taken yet: a request's; interim answers and the final one
  std::string received;         // of the body, not taken yet
  std::vector<Field> trailers;  // behind the body, once it has ended
  bool ended = false;           // the peer's side, whole
  bool closed = false;          // nothing moves any more, either way
  Http2Error error = Http2Error::none;  // that it was closed with
  bool end_sent = false;                // our side, whole
  std::size_t unconsumed = 0;           // body bytes that count against the windows
  std::uint64_t received_bytes = 0;     // of the body, in all

  [[nodiscard]] bool is_drained() const noexcept { return sent == unsent.size(); }

  // Of the session alone.
  std::string unsent;  // of our body; the first `sent` bytes are framed already
  std::size_t sent = 0;
  enum class Ending { open, end, trailers } ending = Ending::open;
  std::vector<Field> last_fields;  // our trailers
  Http2Head coming;                // a head or trailers whose fields are arriving
  std::size_t coming_bytes = 0;
  std::size_t head_bytes = 0;  // of all heads
  bool has_head = false;       // the final one came
};

enum class Http2Role { server, client };

class Http2Session {
public:
  explicit Http2Session(Http2Role role);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Takes all of `bytes`. False where the connection can't go on: broken() says why.
  bool feed(std::string_view bytes);
  // Frames to be sent, about `max` bytes of them; empty: none now.
  std::string take_output(std::size_t max);
  // Whether anything is left to be done; where not, the connection is over.
  [[nodiscard]] bool is_alive() const;
  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }

  // Streams with something new since the last call; each may be there more than once or be gone.
  std::vector<std::int32_t> take_changed();
  // Requests that were reset without ever becoming a head, since the last call: malformed ones.
  std::size_t take_malformed();

  // Null: not there. Valid until forget().
  Http2Stream* find(std::int32_t id);
  [[nodiscard]] std::size_t stream_count() const noexcept { return streams_.size(); }

  // A request of a client; `secret_name`'s value is kept out of compression (RFC 7541 §7.1). Empty
  // where the connection takes no more.
  std::optional<std::int32_t> open_stream(const std::vector<Field>& fields, bool is_last,
                                          std::string_view secret_name);
  // An answer of a server; all of these do nothing where the stream is closed.
  void send_interim(std::int32_t id, const std::vector<Field>& fields);
  void send_head(std::int32_t id, const std::vector<Field>& fields, bool is_last);
  void send_body(std::int32_t id, std::string data);
  void end_body(std::int32_t id, std::vector<Field> trailers);
  void reset(std::int32_t id, Http2Error error);

  // `count` of a body's received bytes have gone on: the peer may send as many more.
  void consume(std::int32_t id, std::size_t count);
  // Lets the peer send `bytes` more than http2_connection_window on all streams together.
  void widen(std::size_t bytes);
  // Done with a stream; one that is not over is reset.
  void forget(std::int32_t id);

  // The connection is gone: so are its streams, but what they hold can still be taken.
  void close_all();
  // Says that no further stream is taken (server) or that the connection is over.
  void go_away(Http2Error error);
  // The peer takes no further stream.
  [[nodiscard]] bool is_draining() const noexcept { return draining_; }

private:
  struct Callbacks;
  struct Deleter {
    void operator()(nghttp2_session* session) const noexcept;
  };
  void note(std::int32_t id);
  void erase(std::int32_t id);
  void fail(std::string text);

  Http2Role role_;
  std::map<std::int32_t, Http2Stream> streams_;
  std::vector<std::int32_t> changed_;
  std::size_t malformed_ = 0;
  std::size_t head_bytes_ = 0;  // of all streams that are there
  std::string broken_;
  bool draining_ = false;
  std::unique_ptr<nghttp2_session, Deleter> session_;
};

}  // namespace daiv::proxy
