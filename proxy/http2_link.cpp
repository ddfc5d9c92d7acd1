#include "proxy/http2_link.hpp"

#include <algorithm>
#include <utility>

#include "proxy/side_by_side.hpp"

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

// A body of this size gets a window of its own, so that it can't keep the streams beside it from
// the connection's.
constexpr std::uint64_t heavy_bytes = http2_connection_window / 2;

}  // namespace

// An entry of waiting_.
class Http2Link::Waiting {
public:
  Waiting(Http2Link& link, std::int32_t id, Wakeup& wakeup)
      : link_(link), entry_(link.waiting_.emplace(id, &wakeup)) {}
  ~Waiting() { link_.waiting_.erase(entry_); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

private:
  Http2Link& link_;
  std::multimap<std::int32_t, Wakeup*>::iterator entry_;
};

Http2Link::Http2Link(ProxyCore& core, ProxiedSession& session, Channel& channel, Http2Role role,
                     OnRequest on_request)
    : core_(core),
      proxied_(session),
      channel_(channel),
      role_(role),
      on_request_(std::move(on_request)),
      session_(role),
      output_(core.executor) {}

asio::awaitable<void> Http2Link::run(std::string received) {
  auto reading = guard(read_frames(std::move(received)));
  auto writing = guard(write_frames());
  co_await side_by_side(std::move(reading), std::move(writing));
}

// What one direction throws must not leave the other waiting.
asio::awaitable<void> Http2Link::guard(asio::awaitable<void> direction) {
  try {
    co_await std::move(direction);
  } catch (...) {
    channel_.cut();
    end();
    throw;
  }
}

// With streams open it is they that have deadlines.
milliseconds Http2Link::read_limit() const {
  const EgressTimeouts& timeouts = core_.settings.timeouts;
  if (session_.stream_count() > 0 || role_ == Http2Role::client) return timeouts.tunnel;
  const auto quiet = std::chrono::duration_cast<milliseconds>(steady_clock::now() - idle_since_);
  return std::max(timeouts.idle - quiet, milliseconds(0));
}

asio::awaitable<void> Http2Link::read_frames(std::string received) {
  bool going = session_.feed(received);
  received = std::string();
  spread();
  while (going && !over_ && session_.is_alive()) {
    std::vector<char>& scratch = channel_.set().scratch();
    const Transfer got = channel_.try_read(scratch.data(), scratch.size());
    if (got.kind == Transfer::Kind::bytes) {
      going = session_.feed({scratch.data(), got.bytes});
      spread();
      co_await channel_.give_way();
      continue;
    }
    if (got.kind != Transfer::Kind::needs_read && got.kind != Transfer::Kind::needs_write) {
      channel_.cut();  // nobody is there to read what is still to be said
      break;
    }
    const auto direction = got.kind == Transfer::Kind::needs_read ? Channel::Direction::read
                                                                  : Channel::Direction::write;
    const Wake wake = co_await channel_.wait(direction, read_limit());
    if (wake == Wake::ready) continue;
    if (wake != Wake::timeout) break;
    if (read_limit() > milliseconds(0)) continue;
    session_.go_away(Http2Error::none);  // nobody has asked for anything in a while
    output_.wake();
    co_return;
  }
  end();
}

asio::awaitable<void> Http2Link::write_frames() {
  for (;;) {
    const std::string output = session_.take_output(piece_bytes);
    spread();
    if (!output.empty()) {
      const bool sent = co_await channel_.write(output, core_.settings.timeouts.body);
      if (sent) continue;
      channel_.cut();
      break;
    }
    if (over_ || !session_.is_alive()) break;
    co_await output_.wait(core_.settings.timeouts.tunnel);
  }
  end();
  channel_.finish_sending();
  channel_.hasten_read(milliseconds(0));
}

void Http2Link::end() {
  over_ = true;
  session_.close_all();
  spread();
  output_.wake();
}

void Http2Link::spread() {
  for (const std::int32_t id : session_.take_changed()) {
    const Http2Stream* stream = session_.find(id);
    if (stream == nullptr) continue;
    if (role_ == Http2Role::server && id > newest_ && !stream->heads.empty()) {
      newest_ = id;
      on_request_(id);
      continue;
    }
    widen_for(id, *stream);
    const auto [first, last] = waiting_.equal_range(id);
    std::for_each(first, last, [](const auto& entry) { entry.second->wake(); });
  }
  for (std::size_t count = session_.take_malformed(); count > 0; --count) on_request_(std::nullopt);
  output_.wake();
}

void Http2Link::widen_for(std::int32_t id, const Http2Stream& stream) {
  if (stream.received_bytes < heavy_bytes || stream.closed) return;
  if (!heavy_.insert(id).second || heavy_.size() <= shares_.size()) return;
  shares_.emplace_back(core_, proxied_, http2_stream_window);
  if (shares_.back().granted())
    session_.widen(shares_.size() * http2_stream_window);
  else
    shares_.pop_back();
}

asio::awaitable<bool> Http2Link::wait(std::int32_t id, steady_clock::time_point until) {
  const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
  if (left <= milliseconds(0)) co_return false;
  Wakeup wakeup(core_.executor);
  const Waiting entry(*this, id, wakeup);
  const bool woken = co_await wakeup.wait(left);
  co_return woken;
}

asio::awaitable<std::optional<Http2Head>> Http2Link::next_head(std::int32_t id,
                                                               milliseconds limit) {
  const auto until = steady_clock::now() + limit;
  for (;;) {
    Http2Stream* stream = session_.find(id);
    if (stream == nullptr) co_return std::nullopt;
    if (!stream->heads.empty()) {
      Http2Head head = std::move(stream->heads.front());
      stream->heads.pop_front();
      co_return head;
    }
    if (stream->closed) co_return std::nullopt;
    const bool woken = co_await wait(id, until);
    if (!woken) co_return std::nullopt;
  }
}

asio::awaitable<Http2Link::Piece> Http2Link::read(std::int32_t id, milliseconds limit) {
  using Kind = Piece::Kind;
  const auto until = steady_clock::now() + limit;
  Piece piece;
  for (;;) {
    Http2Stream* stream = session_.find(id);
    if (stream == nullptr) co_return piece;
    if (!stream->received.empty()) {
      piece.kind = Kind::data;
      piece.data = std::exchange(stream->received, {});
      co_return piece;
    }
    if (stream->ended || stream->closed) {
      piece.kind = stream->ended ? Kind::end : Kind::closed;
      co_return piece;
    }
    const bool woken = co_await wait(id, until);
    if (woken) continue;
    piece.kind = Kind::timeout;
    co_return piece;
  }
}

void Http2Link::consume(std::int32_t id, std::size_t count) {
  session_.consume(id, count);
  output_.wake();
}

asio::awaitable<bool> Http2Link::write(std::int32_t id, std::string data, milliseconds limit) {
  const auto until = steady_clock::now() + limit;
  session_.send_body(id, std::move(data));
  output_.wake();
  for (;;) {
    const Http2Stream* stream = session_.find(id);
    if (stream == nullptr || stream->closed) co_return false;
    if (stream->is_drained()) co_return true;
    const bool woken = co_await wait(id, until);
    if (!woken) co_return false;
  }
}

asio::awaitable<bool> Http2Link::finish(std::int32_t id, std::vector<Field> trailers,
                                        milliseconds limit) {
  const auto until = steady_clock::now() + limit;
  session_.end_body(id, std::move(trailers));
  output_.wake();
  for (;;) {
    const Http2Stream* stream = session_.find(id);
    if (stream == nullptr) co_return false;
    if (stream->end_sent) co_return true;
    if (stream->closed) co_return false;
    const bool woken = co_await wait(id, until);
    if (!woken) co_return false;
  }
}

asio::awaitable<void> Http2Link::wait_for_change(std::int32_t id) {
  co_await wait(id, steady_clock::now() + core_.settings.timeouts.tunnel);
}

std::optional<std::int32_t> Http2Link::open_stream(const std::vector<Field>& fields, bool is_last,
                                                   const std::string& secret_name) {
  if (over_) return std::nullopt;
  const auto id = session_.open_stream(fields, is_last, secret_name);
  output_.wake();
  return id;
}

void Http2Link::send_interim(std::int32_t id, const std::vector<Field>& fields) {
  session_.send_interim(id, fields);
  output_.wake();
}

void Http2Link::send_head(std::int32_t id, const std::vector<Field>& fields, bool is_last) {
  session_.send_head(id, fields, is_last);
  output_.wake();
}

void Http2Link::reset(std::int32_t id, Http2Error error) {
  session_.reset(id, error);
  output_.wake();
}

void Http2Link::forget(std::int32_t id) {
  session_.forget(id);
  heavy_.erase(id);
  if (session_.stream_count() == 0) {
    idle_since_ = steady_clock::now();
    if (role_ == Http2Role::server) channel_.hasten_read(core_.settings.timeouts.idle);
  }
  output_.wake();
}

}  // namespace daiv::proxy
