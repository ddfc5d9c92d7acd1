#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/body_budget.hpp"
#include "api/http_message.hpp"
#include "api/http_parser.hpp"
#include "api/router.hpp"
#include "api/settings.hpp"
#include "api/stream.hpp"

namespace daiv::api {

// The client's side of a connection: bytes that came and are not used yet.
struct Wire {
  Stream& stream;
  std::string received;
};

// One request and its answer on a connection. Lives for one request, used by one coroutine on the
// connection's executor. Every call throws ClientGone where the client went away or is too slow,
// HttpFailure where the request is at fault.
class Exchange {
public:
  Exchange(Wire& wire, RequestParser& parser, const ServerSettings& settings, BodyBudget& bodies);

  [[nodiscard]] const RequestHead& head() const noexcept { return parser_.head(); }
  Target target;
  const Route* route = nullptr;  // empty where none matched
  std::string session_id;

  // The whole body; 413 above `limit` bytes, 503 where others hold too much memory already. It
  // counts against the budget until the exchange ends, in whatever form it is then.
  boost::asio::awaitable<std::string> read_body(std::uint64_t limit);
  // The next piece of the body, empty at its end; 413 when all pieces together pass `limit`.
  boost::asio::awaitable<std::string> read_body_some(std::uint64_t limit);
  [[nodiscard]] bool body_done() const noexcept { return parser_.done(); }

  // Runs `operation`; cancels it (terminal) and throws ClientGone as soon as the client closes the
  // connection. The body must have been read. Pipelined requests that come meanwhile wait.
  boost::asio::awaitable<void> while_connected(boost::asio::awaitable<void> operation);

  // The answer as a whole. Called once, or else start() and its companions are.
  boost::asio::awaitable<void> send(Response response);

  // An answer in pieces: held back while small, so that it gets a length, and in chunks from then
  // on.
  void start(Response response);
  boost::asio::awaitable<void> write(std::string_view bytes);
  boost::asio::awaitable<void> finish();

  [[nodiscard]] bool answered() const noexcept { return status_ != 0; }
  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] const Stream& stream() const noexcept { return wire_.stream; }
  [[nodiscard]] std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  // Whether the next request may follow on this connection; known when the answer was sent.
  [[nodiscard]] bool can_go_on() const noexcept { return following_ == Following::request; }
  // Says "connection: close" with the answer.
  void close_after_answer() noexcept { following_ = Following::nothing; }

private:
  enum class Following { request, nothing };

  boost::asio::awaitable<void> receive();
  boost::asio::awaitable<void> append_body(std::string& body, std::uint64_t limit);
  boost::asio::awaitable<void> settle_body();
  boost::asio::awaitable<void> put(std::string bytes);
  boost::asio::awaitable<void> watch_client();
  boost::asio::awaitable<void> send_head(std::uint64_t length, bool complete);

  Wire& wire_;
  RequestParser& parser_;
  const ServerSettings& settings_;
  BodyBudget::Share held_;
  std::uint64_t body_bytes_ = 0;
  bool continue_sent_ = false;
  std::chrono::milliseconds waited_{0};  // for the body, in this window
  std::size_t window_bytes_ = 0;
  int status_ = 0;
  std::uint64_t sent_bytes_ = 0;  // of the answer's body
  Following following_ = Following::request;
  Response streamed_;
  std::string pending_;
  bool head_sent_ = false;
  bool chunked_ = false;
};

}  // namespace daiv::api
