#include "api/connection.hpp"

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "api/access_log.hpp"
#include "api/exchange.hpp"
#include "api/failure.hpp"
#include "api/handlers.hpp"
#include "api/http_writer.hpp"
#include "api/json_write.hpp"
#include "sessions/session_service.hpp"

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t read_bytes = 16U << 10;
// A client that does not close its side holds up the server's stop no longer than this.
constexpr milliseconds stop_linger{500};

std::string make_request_id() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}", random());
}

Response session_failure(const sessions::SessionError& error) {
  using sessions::SessionFailure;
  switch (error.failure()) {
    case SessionFailure::not_found:
      return detail_response(404, "Session not found or already closed");
    case SessionFailure::busy:
      return detail_response(409, "Session is busy");
    case SessionFailure::already_seeded:
      return detail_response(409, "Session already seeded");
    case SessionFailure::bad_request:
      return detail_response(400, error.what());
    case SessionFailure::invalid_seed:
      return detail_response(422, error.what());
    case SessionFailure::too_large:
      return detail_response(413, error.what());
    case SessionFailure::unavailable:
      return detail_response(503, error.what());
  }
  return detail_response(500, "Internal Server Error");
}

Response plain_response(int status, std::string text) {
  Response response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

// One client: reads heads, has each request answered, decides whether another may follow.
class Connection {
public:
  Connection(Stream& stream, Context& context, const Lifecycle& lifecycle, bool& busy)
      : wire_{stream, {}}, context_(context), lifecycle_(lifecycle), busy_(busy) {}

  asio::awaitable<void> run() {
    bool go_on = true;
    for (bool first = true; go_on && !lifecycle_.stopping; first = false) {
      busy_ = false;
      RequestParser parser;
      const Head head = co_await read_head(parser, first);
      if (head == Head::none) co_return;
      go_on = head == Head::read && co_await serve(parser);
    }
    co_await linger();
  }

private:
  enum class Head { read, refused, none };

  // Waits for a request. Nothing is said to a client that closes, or that keeps quiet between two
  // requests.
  asio::awaitable<Head> read_head(RequestParser& parser, bool first) {
    const Timeouts& timeouts = context_.settings.timeouts;
    milliseconds limit = first ? timeouts.head : timeouts.idle;
    steady_clock::time_point deadline = steady_clock::now() + limit;
    std::string no_body;
    for (;;) {
      if (!wire_.received.empty() && !busy_) {
        busy_ = true;
        deadline = steady_clock::now() + timeouts.head;
      }
      const auto used = parser.feed(wire_.received, no_body);
      if (!used) {
        co_await refuse(used.error().status, used.error().text);
        co_return Head::refused;
      }
      wire_.received.erase(0, *used);
      if (parser.head_done()) co_return Head::read;
      limit = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
      const ReadEnd end = co_await receive(std::max(limit, milliseconds(0)));
      if (end == ReadEnd::data) continue;
      if (end == ReadEnd::closed || !busy_) co_return Head::none;
      co_await refuse(408, "Request head too slow.");
      co_return Head::refused;
    }
  }

  asio::awaitable<ReadEnd> receive(milliseconds limit) {
    std::array<char, read_bytes> buffer;
    const ReadResult result = co_await wire_.stream.read_some(buffer.data(), buffer.size(), limit);
    wire_.received.append(buffer.data(), result.bytes);
    co_return result.end;
  }

  // An answer to what is no request.
  asio::awaitable<void> refuse(int status, std::string text) {
    Response response = plain_response(status, std::move(text));
    ResponseFrame frame;
    frame.length = response.body.size();
    frame.persistence = Persistence::close;
    const std::string bytes = write_head(response, frame) + response.body;
    const WriteEnd end = co_await wire_.stream.write(bytes, context_.settings.timeouts.write);
    context_.metrics.record("-", "-", end == WriteEnd::written ? status : 0, milliseconds(0),
                            response.body.size());
  }

  // Answers one request; whether the next one may follow.
  asio::awaitable<bool> serve(RequestParser& parser) {
    const auto start = steady_clock::now();
    Exchange exchange(wire_, parser, context_.settings, context_.bodies);
    exchange.target = split_target(parser.head().target);
    const std::string request_id = make_request_id();
    bool gone = false;
    try {
      co_await answer(exchange, request_id);
    } catch (const ClientGone&) {
      gone = true;
    } catch (const boost::system::system_error& error) {
      if (error.code() != asio::error::operation_aborted) throw;
      gone = true;  // the server stops and has waited long enough
    }
    record(exchange, request_id, gone ? 0 : exchange.status(), steady_clock::now() - start);
    co_return !gone && exchange.can_go_on();
  }

  asio::awaitable<void> answer(Exchange& exchange, const std::string& request_id) {
    std::optional<Response> failure;
    try {
      co_await route(exchange);
    } catch (const HttpFailure& refused) {
      failure = refused.answer();
    } catch (const sessions::SessionError& error) {
      failure = session_failure(error);
    } catch (const ClientGone&) {
      throw;
    } catch (const boost::system::system_error& error) {
      if (error.code() == asio::error::operation_aborted) throw;
      failure = internal_failure(exchange, request_id, error.what());
    } catch (const std::exception& error) {
      failure = internal_failure(exchange, request_id, error.what());
    }
    if (!failure) co_return;
    // Half an answer can't be taken back: the client sees the end of the stream in the middle of
    // it.
    if (exchange.answered()) throw ClientGone();
    if (lifecycle_.stopping) exchange.close_after_answer();
    co_await exchange.send(*std::move(failure));
  }

  // "Caught" is logged here; the client learns details in a local environment alone.
  Response internal_failure(const Exchange& exchange, const std::string& request_id,
                            const char* what) {
    log_failure(request_id, exchange.route == nullptr ? "-" : exchange.route->path, what);
    std::string text = "Internal Server Error";
    if (context_.settings.environment == Environment::local) text += fmt::format(": {}", what);
    Response response = plain_response(500, std::move(text));
    response.fields = {{"x-request-id", request_id}};
    return response;
  }

  asio::awaitable<void> route(Exchange& exchange) {
    RouteVerdict verdict =
        find_route(exchange.head().method, exchange.target.path, context_.settings.prefix);
    if (RouteMatch* match = std::get_if<RouteMatch>(&verdict)) {
      exchange.route = match->route;
      exchange.session_id = std::move(match->session_id);
      if (lifecycle_.stopping) exchange.close_after_answer();
      co_await handle(context_, exchange);
      co_return;
    }
    Response response = unrouted(exchange, verdict);
    co_await exchange.send(std::move(response));
  }

  static Response unrouted(const Exchange& exchange, const RouteVerdict& verdict) {
    Response response = detail_response(404, "Not Found");
    if (const MethodNotAllowed* refused = std::get_if<MethodNotAllowed>(&verdict)) {
      response = detail_response(405, "Method Not Allowed");
      response.fields = {{"allow", refused->allow}};
    }
    if (const RouteRedirect* redirect = std::get_if<RouteRedirect>(&verdict)) {
      std::string url =
          fmt::format("{}://{}{}", exchange.stream().scheme(),
                      exchange.head().find("Host").value_or("localhost"), redirect->path);
      if (!exchange.target.query.empty()) url += "?" + exchange.target.query;
      response = Response();
      response.status = 307;
      response.fields = {{"location", quote_location(url)}};
    }
    return response;
  }

  void record(const Exchange& exchange, const std::string& request_id, int status,
              std::chrono::nanoseconds duration) {
    const bool routed = exchange.route != nullptr;
    const std::string_view route = routed ? exchange.route->path : "-";
    // An unknown method would be a label of the client's choice.
    context_.metrics.record(routed ? exchange.route->method : "-", route, status, duration,
                            exchange.sent_bytes());
    if (routed && exchange.route->id == RouteId::health) return;
    AccessRecord line;
    line.request_id = request_id;
    line.method = exchange.head().method;
    line.route = route;
    line.session_id = exchange.session_id;
    line.status = status;
    line.duration = duration;
    line.sent_bytes = exchange.sent_bytes();
    log_access(line, context_.settings.log_format);
    observe(exchange, line);
  }

  void observe(const Exchange& exchange, const AccessRecord& line) {
    RequestObserver* const observer = context_.extensions.observer;
    if (observer == nullptr) return;
    const std::string address = exchange.stream().peer_address();
    using std::chrono::system_clock;
    const auto start =
        system_clock::now() - std::chrono::duration_cast<system_clock::duration>(line.duration);
    // A method that no route has would be a name of the client's choice.
    const std::string_view method = exchange.route == nullptr ? "-" : exchange.route->method;
    observer->finished({line.request_id, method, line.route, line.session_id, line.status, start,
                        line.duration, address, exchange.head().fields});
  }

  // Closing at once while the client still sends would make its kernel drop our last answer (RFC
  // 9112, section 9.6).
  asio::awaitable<void> linger() {
    co_await wire_.stream.finish_writing(stop_linger);
    wire_.received.clear();
    const milliseconds limit = context_.settings.timeouts.linger;
    const auto deadline =
        steady_clock::now() + (lifecycle_.stopping ? std::min(limit, stop_linger) : limit);
    std::size_t dropped = 0;
    while (dropped < context_.settings.limits.max_linger_bytes) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
      if (left <= milliseconds(0)) co_return;
      const ReadEnd end = co_await receive(left);
      if (end != ReadEnd::data) co_return;
      dropped += wire_.received.size();
      wire_.received.clear();
    }
  }

  Wire wire_;
  Context& context_;
  const Lifecycle& lifecycle_;
  bool& busy_;
};

}  // namespace

asio::awaitable<void> serve_connection(std::unique_ptr<Stream> stream, Context& context,
                                       const Lifecycle& lifecycle, bool& busy) {
  Connection connection(*stream, context, lifecycle, busy);
  co_await connection.run();
}

}  // namespace daiv::api
