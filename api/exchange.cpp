#include "api/exchange.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>

#include "api/failure.hpp"
#include "api/http_writer.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t read_bytes = 64U << 10;  // one read from the client
constexpr std::size_t held_bytes = 64U << 10;  // of an answer in pieces, before it is sent
// Room for all of a body is made once so much of it has come.
constexpr std::size_t believed_bytes = 1U << 20;

}  // namespace

Exchange::Exchange(Wire& wire, RequestParser& parser, const ServerSettings& settings,
                   BodyBudget& bodies)
    : wire_(wire), parser_(parser), settings_(settings), held_(bodies) {
  if (!parser.head().keep_alive) following_ = Following::nothing;
}

// Waits for more bytes of the body. A client that brings fewer than min_body_bytes in a window of
// waiting is cut; time that the server spends on what came is not counted.
asio::awaitable<void> Exchange::receive() {
  if (head().expects_continue && !continue_sent_) {
    continue_sent_ = true;
    co_await put(std::string(continue_head));
  }
  const std::size_t old_size = wire_.received.size();
  wire_.received.resize(old_size + read_bytes);
  const auto before = steady_clock::now();
  const milliseconds limit = settings_.timeouts.body_window - waited_;
  char* const place = wire_.received.data() + old_size;
  const ReadResult result = co_await wire_.stream.read_some(place, read_bytes, limit);
  wire_.received.resize(old_size + result.bytes);
  if (result.end == ReadEnd::closed) throw ClientGone();
  window_bytes_ += result.bytes;
  waited_ += std::chrono::duration_cast<milliseconds>(steady_clock::now() - before);
  if (result.end == ReadEnd::data && waited_ < settings_.timeouts.body_window) co_return;
  if (window_bytes_ < settings_.timeouts.min_body_bytes) {
    close_after_answer();
    throw HttpFailure(408, "Request body too slow");
  }
  window_bytes_ = 0;
  waited_ = milliseconds(0);
}

// Adds the next piece of the body; nothing at its end.
asio::awaitable<void> Exchange::append_body(std::string& body, std::uint64_t limit) {
  if (head().content_length.value_or(0) > limit) throw HttpFailure(413, "Request body too large");
  const std::size_t old_size = body.size();
  while (body.size() == old_size && !parser_.done()) {
    const auto used = parser_.feed(wire_.received, body);
    if (!used) {
      close_after_answer();
      throw HttpFailure(used.error().status, used.error().text);
    }
    wire_.received.erase(0, *used);
    body_bytes_ += body.size() - old_size;
    if (body_bytes_ > limit) throw HttpFailure(413, "Request body too large");
    if (body.size() == old_size && !parser_.done()) co_await receive();
  }
}

asio::awaitable<std::string> Exchange::read_body_some(std::uint64_t limit) {
  std::string body;
  co_await append_body(body, limit);
  co_return body;
}

asio::awaitable<std::string> Exchange::read_body(std::uint64_t limit) {
  std::string whole;
  for (;;) {
    const std::size_t old_size = whole.size();
    co_await append_body(whole, limit);
    if (whole.size() == old_size) co_return whole;
    if (held_.grow(whole.size() - old_size) == BodyBudget::Share::Verdict::exhausted)
      throw HttpFailure(503, "Too many large requests at a time; try again later");
    // Growing step by step, a large body is copied, and its memory faulted in, again and again.
    if (old_size < believed_bytes && whole.size() >= believed_bytes)
      whole.reserve(head().content_length.value_or(0));
  }
}

// Before an answer goes out: a short rest of the body is read and dropped, so that the connection
// can go on; with a long one, or one that the client only sends when asked to, the connection ends
// with the answer (RFC 9112, section 9.6).
asio::awaitable<void> Exchange::settle_body() {
  if (parser_.done() || following_ == Following::nothing) co_return;
  const bool asked = head().expects_continue && !continue_sent_;
  const std::uint64_t length = head().content_length.value_or(settings_.limits.max_drain_bytes + 1);
  if (asked || length - std::min(length, body_bytes_) > settings_.limits.max_drain_bytes) {
    close_after_answer();
    co_return;
  }
  bool readable = true;
  while (readable && !parser_.done()) {
    try {
      [[maybe_unused]] const std::string dropped = co_await read_body_some(length);
    } catch (const HttpFailure&) {
      // What is left is malformed or too slow; the answer is about the request all the same.
      readable = false;
    }
  }
  if (!readable) close_after_answer();
}

asio::awaitable<void> Exchange::put(std::string bytes) {
  const WriteEnd end = co_await wire_.stream.write(bytes, settings_.timeouts.write);
  if (end == WriteEnd::failed) throw ClientGone();
}

asio::awaitable<void> Exchange::send(Response response) {
  co_await settle_body();
  status_ = response.status;
  sent_bytes_ = response.body.size();
  ResponseFrame frame;
  frame.length = response.body.size();
  frame.persistence = can_go_on() ? Persistence::keep_alive : Persistence::close;
  frame.version = head().version;
  std::string bytes = write_head(response, frame);
  if (head().method != "HEAD") bytes += response.body;
  co_await put(std::move(bytes));
}

void Exchange::start(Response response) {
  streamed_ = std::move(response);
  status_ = streamed_.status;
}

asio::awaitable<void> Exchange::send_head(std::uint64_t length, bool complete) {
  co_await settle_body();
  ResponseFrame frame;
  frame.length = length;
  frame.version = head().version;
  chunked_ = !complete && frame.version == HttpVersion::http_1_1;
  if (!complete) frame.framing = chunked_ ? Framing::chunks : Framing::until_close;
  if (frame.framing == Framing::until_close) close_after_answer();
  frame.persistence = can_go_on() ? Persistence::keep_alive : Persistence::close;
  head_sent_ = true;
  co_await put(write_head(streamed_, frame));
}

asio::awaitable<void> Exchange::write(std::string_view bytes) {
  sent_bytes_ += bytes.size();
  pending_ += bytes;
  if (pending_.size() < held_bytes) co_return;
  if (!head_sent_) co_await send_head(0, false);
  std::string piece = chunked_ ? write_chunk(pending_) : std::move(pending_);
  pending_.clear();
  co_await put(std::move(piece));
}

asio::awaitable<void> Exchange::finish() {
  if (!head_sent_) co_await send_head(pending_.size(), true);
  std::string piece = chunked_ && !pending_.empty() ? write_chunk(pending_) : std::move(pending_);
  pending_.clear();
  if (chunked_) piece += last_chunk;
  if (!piece.empty()) co_await put(std::move(piece));
}

// Returns when the client closed the connection. Reads what a pipelining client sends, up to a
// limit; behind that the closing can't be seen until the answer is written.
asio::awaitable<void> Exchange::watch_client() {
  constexpr milliseconds long_time = std::chrono::hours(24);
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::array<char, 4096> buffer{};
  for (;;) {
    if (wire_.received.size() >= settings_.limits.max_read_ahead_bytes) {
      asio::steady_timer timer(executor, long_time);
      co_await timer.async_wait(asio::use_awaitable);
      continue;
    }
    const ReadResult result =
        co_await wire_.stream.read_some(buffer.data(), buffer.size(), long_time);
    wire_.received.append(buffer.data(), result.bytes);
    if (result.end == ReadEnd::closed) co_return;
  }
}

asio::awaitable<void> Exchange::while_connected(asio::awaitable<void> operation) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto group = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, std::move(operation), asio::deferred),
      asio::co_spawn(executor, watch_client(), asio::deferred));
  auto [order, error, watch_error] =
      co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  // The operation may have finished although the client closed first: that counts for nothing,
  // nobody waits for it.
  if (order[0] == 1) throw ClientGone();
  if (error) std::rethrow_exception(error);
}

}  // namespace daiv::api
