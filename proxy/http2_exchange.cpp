#include "proxy/http2_exchange.hpp"

#include <utility>

#include "proxy/forwarded_head.hpp"
#include "proxy/http2_message.hpp"
#include "proxy/side_by_side.hpp"

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

using Kind = Http2Link::Piece::Kind;

// Connections that take no more streams just then, or a policy that changes all the time.
constexpr int max_attempts = 4;

std::size_t size_of(const std::vector<Field>& fields) {
  std::size_t size = 0;
  for (const auto& [name, value] : fields) size += name.size() + value.size();
  return size;
}

}  // namespace

asio::awaitable<void> Http2Exchange::run() {
  auto head = co_await link_.next_head(id_, milliseconds(0));
  if (!head) co_return;
  body_ = head->is_last ? BodyPresence::none : BodyPresence::some;
  auto request = read_http2_request(std::move(*head));
  judged_.emplace(client_.core, client_.session, request ? request->method : std::string());
  if (request) {
    head_ = std::move(*request);
    co_await serve();
  } else {
    Refusal refusal = JudgedRequest::refuse_bad(request.error());
    co_await answer(std::move(refusal));
  }
  judged_->log();
  link_.forget(id_);
}

asio::awaitable<void> Http2Exchange::serve() {
  auto refusal = judged_->locate(head_, client_.tunnel);
  if (!refusal) refusal = judged_->judge_now();
  if (!refusal) refusal = co_await open_origin();
  if (refusal) {
    co_await answer(*std::move(refusal));
    co_return;
  }
  if (judged_->secret() != nullptr) ++client_.core->counters.injections;
  if (body_ == BodyPresence::some && expects_continue(head_)) {
    const std::vector<Field> interim{{":status", "100"}};
    link_.send_interim(id_, interim);
  }
  auto up = upload();
  auto down = download();
  co_await side_by_side(std::move(up), std::move(down));
  if (origin_)
    origin_->settle(complete_ ? OriginStream::Outcome::whole : OriginStream::Outcome::broken);
}

// Sends the head on a connection that fits the verdict.
asio::awaitable<std::optional<Refusal>> Http2Exchange::open_origin() {
  using Repeatable = Http2Upstreams::Repeatable;
  const auto repeatable =
      body_ == BodyPresence::none && is_idempotent(head_.method) ? Repeatable::yes : Repeatable::no;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    auto lease = co_await client_.upstreams.get(*judged_, repeatable);
    if (!lease) co_return std::move(lease.error());
    if (is_closed()) {  // while the connection was made: nothing is asked for it
      if (lease->http1) client_.session->keep_idle(std::move(*lease->http1));
      Refusal given_up{Answer(), "the client gave its request up"};
      given_up.answer.status = 0;
      co_return given_up;
    }
    RequestHead planned =
        plan_request(head_, judged_->destination(), Upgrade::none, judged_->secret());
    if (lease->http2 && takes_trailers(head_)) planned.fields.push_back(Field{"te", "trailers"});
    judged_->traffic.up += size_of(planned.fields);
    std::string secret_header = judged_->secret_header();
    origin_ = co_await open_origin_stream(client_.core, client_.session, std::move(*lease),
                                          std::move(planned), body_, std::move(secret_header));
    if (origin_) co_return std::nullopt;
  }
  const HttpFault fault{502, "the origin takes no requests"};
  ++client_.core->counters.upstream_failures;
  co_return Refusal{make_gateway_error(fault.status, fault.text), fault.text};
}

bool Http2Exchange::is_stalled(milliseconds limit) const {
  return steady_clock::now() - moved_ >= limit;
}

bool Http2Exchange::is_closed() const {
  const Http2Stream* stream = link_.find(id_);
  return stream == nullptr || stream->closed;
}

// A client that gives its stream up is noticed here, whatever the other direction waits for.
asio::awaitable<void> Http2Exchange::upload() {
  if (body_ == BodyPresence::some) co_await pass_request_body();
  co_await wait_until_closed();
  // With the answer's last frame the stream closes, too, and download() may learn of it after us.
  const Http2Stream* stream = link_.find(id_);
  const bool is_answered = stream != nullptr && stream->end_sent;
  if (!is_answered && origin_) origin_->cancel();
}

asio::awaitable<void> Http2Exchange::pass_request_body() {
  for (;;) {
    auto piece = co_await link_.read(id_, timeouts_.body);
    switch (piece.kind) {
      case Kind::data: {
        const std::size_t size = piece.data.size();
        body_begun_ = true;
        moved();
        const bool sent = co_await origin_->send(std::move(piece.data), timeouts_.body);
        link_.consume(id_, size);
        // An origin that takes no more may still answer (401, 413).
        if (!sent) co_return;
        moved();
        judged_->traffic.up += size;
        break;
      }
      case Kind::end: {
        const Http2Stream* stream = link_.find(id_);
        std::vector<Field> trailers = stream == nullptr ? std::vector<Field>() : stream->trailers;
        trailers = make_http2_trailers(std::move(trailers), judged_->secret_header());
        co_await origin_->finish(std::move(trailers), timeouts_.body);
        moved();
        co_return;
      }
      case Kind::timeout:
        if (!is_stalled(timeouts_.body)) break;
        link_.reset(id_, Http2Error::cancel);
        co_return;
      case Kind::closed:
        co_return;
    }
  }
}

asio::awaitable<void> Http2Exchange::wait_until_closed() {
  while (!is_closed()) co_await link_.wait_for_change(id_);
}

void Http2Exchange::fail(const HttpFault& fault) {
  Answer answer = make_gateway_error(fault.status, fault.text);
  failure_ = Refusal{std::move(answer), fault.text};
}

asio::awaitable<void> Http2Exchange::download() {
  auto response = co_await read_response();
  if (response) co_await pass_response(std::move(*response));
  if (failure_ && !is_closed()) {
    ++client_.core->counters.upstream_failures;
    co_await answer(*std::exchange(failure_, std::nullopt));
    co_return;
  }
  if (!complete_) judged_->decision.reason += ", the answer was not whole";
  // With a whole answer the client may leave out the rest of its body (RFC 9113 §8.1).
  link_.reset(id_, complete_ ? Http2Error::none : Http2Error::internal);
}

asio::awaitable<std::expected<OriginHead, OriginFault>> Http2Exchange::next_head() {
  for (;;) {
    auto head = co_await origin_->next_head(timeouts_.answer);
    const bool is_late = !head && head.error().fault.status == 504;
    if (!is_late || is_stalled(timeouts_.answer)) co_return head;
  }
}

// The answer's final head; interim ones are passed on, but for 100, which the proxy has said.
asio::awaitable<std::optional<OriginHead>> Http2Exchange::read_response() {
  bool may_retry = body_ == BodyPresence::none;
  for (;;) {
    auto head = co_await next_head();
    if (head) {
      moved();
      const int status = head->head.status;
      if (status >= 200) co_return std::move(*head);
      if (status == 101) {
        fail({502, "the origin changed protocols without being asked"});
        co_return std::nullopt;
      }
      if (status == 100) continue;
      const auto interim =
          plan_response(std::move(head->head), Upgrade::none, 1, Persistence::keep);
      link_.send_interim(id_, make_http2_response(interim));
      continue;
    }
    using Work = OriginFault::Work;
    const OriginFault fault = std::move(head.error());
    const bool is_safe =
        fault.work == Work::none || (fault.work == Work::unlikely && is_idempotent(head_.method));
    if (!std::exchange(may_retry, false) || !is_safe || is_closed()) {
      fail(fault.fault);
      co_return std::nullopt;
    }
    origin_->settle(OriginStream::Outcome::broken);
    origin_.reset();
    failure_ = co_await open_origin();
    if (failure_) co_return std::nullopt;
  }
}

asio::awaitable<void> Http2Exchange::pass_response(OriginHead response) {
  judged_->decision.status = response.head.status;
  const auto planned = plan_response(std::move(response.head), Upgrade::none, 1, Persistence::keep);
  const auto fields = make_http2_response(planned);
  judged_->traffic.down += size_of(fields);
  link_.send_head(id_, fields, response.is_last);
  answered_ = true;
  std::vector<Field> trailers;
  while (!response.is_last) {
    auto piece = co_await origin_->read(timeouts_.body);
    if (piece.kind == Kind::timeout && !is_stalled(timeouts_.body)) continue;
    if (piece.kind == Kind::end) {
      trailers = make_http2_trailers(origin_->trailers(), {});
      break;
    }
    if (piece.kind != Kind::data) co_return;
    moved();
    const std::size_t size = piece.data.size();
    const bool sent = co_await link_.write(id_, std::move(piece.data), timeouts_.body);
    origin_->consume(size);
    if (!sent) co_return;
    moved();
    judged_->traffic.down += size;
  }
  complete_ = co_await link_.finish(id_, std::move(trailers), timeouts_.body);
}

// What the proxy itself says; the rest of the request is not wanted.
asio::awaitable<void> Http2Exchange::answer(Refusal refusal) {
  judged_->decision.status = refusal.answer.status;
  judged_->decision.reason = std::move(refusal.reason);
  const auto fields = make_http2_answer(refusal.answer);
  const bool is_bodiless = head_.method == "HEAD" || refusal.answer.body.empty();
  link_.send_head(id_, fields, is_bodiless);
  judged_->traffic.down += size_of(fields);
  if (!is_bodiless) {
    judged_->traffic.down += refusal.answer.body.size();
    co_await link_.write(id_, std::move(refusal.answer.body), timeouts_.body);
  }
  co_await link_.finish(id_, {}, timeouts_.body);
  link_.reset(id_, Http2Error::none);
}

}  // namespace daiv::proxy
