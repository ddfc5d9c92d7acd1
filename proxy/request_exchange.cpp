#include "proxy/request_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "proxy/side_by_side.hpp"

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

// A body that nobody wants is read up to here, so that the connection can go on.
constexpr std::uint64_t max_drained_bytes = 1U << 20;
constexpr milliseconds drain_limit{5000};

constexpr std::string_view continue_text = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

asio::awaitable<Next> RequestExchange::run() {
  const Next next = co_await serve();
  judged_.log();
  co_return next;
}

// All that is known without asking the policy.
std::optional<Refusal> RequestExchange::read_request() {
  const auto framing = plan_request_body(head_);
  if (!framing) return JudgedRequest::refuse_bad(framing.error());
  framing_ = *framing;
  reader_.emplace(framing_);
  upgrade_ = find_upgrade(head_, framing_);
  awaits_continue_ = expects_continue(head_) && !reader_->done();
  return judged_.locate(head_, client_.tunnel);
}

asio::awaitable<Next> RequestExchange::serve() {
  std::optional<Refusal> refusal = read_request();
  if (!refusal) refusal = judged_.judge_now();
  if (!refusal) {
    // Before anything is connected, so that an origin sees nothing of a body that is malformed
    // from its beginning.
    auto taken = take_body(client_.received, *reader_,
                           framing_.kind == BodyFraming::Kind::chunked ? BodyEncoding::chunked
                                                                       : BodyEncoding::identity,
                           judged_.secret_header());
    if (taken)
      first_body_ = std::move(*taken);
    else
      refusal = JudgedRequest::refuse_bad(taken.error());
  }
  if (!refusal) refusal = co_await get_upstream();
  if (refusal) {
    const Next next = co_await answer(*std::move(refusal));
    co_return next;
  }
  const Next next = co_await forward();
  co_return next;
}

bool RequestExchange::is_repeatable() const {
  const bool has_body = framing_.kind != BodyFraming::Kind::none &&
                        (framing_.kind != BodyFraming::Kind::length || framing_.length > 0);
  return is_idempotent(head_.method) && !has_body;
}

bool RequestExchange::can_reuse() {
  if (!client_.upstream) return false;
  Upstream& kept = *client_.upstream;
  return judged_.may_use(kept) && kept.received.empty() && !kept.channel->is_stale();
}

// A connection that fits the verdict, and the verdict of the policy as it is when there is one.
asio::awaitable<std::optional<Refusal>> RequestExchange::get_upstream() {
  for (;;) {
    if (can_reuse()) co_return std::nullopt;
    if (client_.upstream) session_.keep_idle(*std::exchange(client_.upstream, std::nullopt));
    if (is_repeatable()) client_.upstream = judged_.take_idle(Protocols::http1);
    if (client_.upstream) co_return std::nullopt;
    auto dialled = co_await judged_.dial_upstream(Protocols::http1);
    if (!dialled) co_return std::move(dialled.error());
    client_.upstream.emplace(std::move(*dialled));
    if (judged_.is_current()) co_return std::nullopt;
    auto refusal = judged_.judge_now();
    if (refusal) co_return refusal;
  }
}

asio::awaitable<Next> RequestExchange::forward() {
  if (judged_.secret() != nullptr) ++core_.counters.injections;
  const RequestHead planned =
      plan_request(head_, judged_.destination(), upgrade_, judged_.secret());
  std::string request = to_text(planned) + std::exchange(first_body_, {});
  if (reader_->done()) {
    co_await send_all(std::move(request));
  } else {
    if (awaits_continue_) {
      awaits_continue_ = false;
      const std::string text(continue_text);
      co_await client_.channel.write(text, core_.settings.timeouts.body);
    }
    auto up = upload(std::move(request));
    auto down = download();
    co_await side_by_side(std::move(up), std::move(down));
  }
  const Next next = co_await finish();
  co_return next;
}

// A request that is here in full. A kept connection may have been closed by the origin just now:
// then it is made anew, once.
asio::awaitable<void> RequestExchange::send_all(std::string request) {
  for (;;) {
    const bool may_retry = client_.upstream->used && is_repeatable();
    const bool sent =
        co_await client_.upstream->channel->write(request, core_.settings.timeouts.body);
    if (sent) {
      judged_.traffic.up += request.size();
      co_await download();
    } else {
      fail(502, "the connection to the origin was lost before its answer");
    }
    const bool nothing_came =
        failure_ && failure_->answer.status == 502 && client_.upstream->received.empty();
    if (!nothing_came || !may_retry || session_.removed) co_return;
    failure_.reset();
    client_.upstream.reset();
    failure_ = co_await get_upstream();
    if (failure_) co_return;
  }
}

asio::awaitable<void> RequestExchange::upload(std::string ready) {
  const BufferShare share(core_, session_, stream_buffer_bytes);
  upload_limit_ = core_.settings.timeouts.body;
  BodyTransfer transfer{
      client_.channel,
      client_.received,
      *reader_,
      *client_.upstream->channel,
      framing_.kind == BodyFraming::Kind::chunked ? BodyEncoding::chunked : BodyEncoding::identity,
      judged_.secret_header(),
      upload_limit_,
      share.piece(),
      judged_.traffic.up};
  upload_end_ = co_await pass_body(transfer, std::move(ready));
  // An origin that takes no more may still answer (401, 413); a client that fails has half a
  // request on its way, which must not become a whole one.
  const bool is_whole =
      upload_end_.kind == BodyEnd::Kind::done || upload_end_.kind == BodyEnd::Kind::sink_failed;
  if (!is_whole) client_.upstream->channel->cut();
}

void RequestExchange::fail(int status, std::string reason) {
  Answer answer = make_gateway_error(status, reason);
  failure_ = Refusal{std::move(answer), std::move(reason)};
}

asio::awaitable<void> RequestExchange::download() {
  auto response = co_await read_response();
  if (response && response->status == 101) {
    if (upgrade_ == Upgrade::websocket) {
      upgraded_ = true;
      co_await become_websocket(std::move(*response));
    } else {
      fail(502, "the origin changed protocols without being asked");
    }
  } else if (response) {
    co_await pass_response(std::move(*response));
  }
  // The upload, if there is one, goes to nobody now.
  if (!complete_) client_.upstream->channel->cut();
  // With a whole answer a client may leave out the rest of its body, and wait for our end.
  upload_limit_ = complete_ ? drain_limit : milliseconds(0);
  if (!reader_->done()) client_.channel.hasten_read(upload_limit_);
}

// The answer's final head; interim ones are passed on, but for 100, which the proxy has said.
asio::awaitable<std::optional<ResponseHead>> RequestExchange::read_response() {
  const EgressTimeouts& timeouts = core_.settings.timeouts;
  Upstream& upstream = *client_.upstream;
  for (std::size_t heads = 0; heads <= max_interim_heads; ++heads) {
    const HeadRead read =
        co_await read_head(*upstream.channel, upstream.received, HeadScanner::Kind::response,
                           HeadLimits{timeouts.answer, timeouts.head});
    if (read.end != HeadRead::End::head) {
      const bool slow = read.end == HeadRead::End::quiet || read.end == HeadRead::End::slow;
      fail(slow ? 504 : 502, read.end == HeadRead::End::refused
                                 ? "the origin's header is malformed: " + read.fault.text
                                 : describe_head_end(read.end));
      co_return std::nullopt;
    }
    auto head = parse_response_head(std::string_view(upstream.received).substr(0, read.size));
    if (!head) {
      fail(502, head.error().text);
      co_return std::nullopt;
    }
    upstream.received.erase(0, read.size);
    if (head->status >= 200 || head->status == 101) co_return std::move(*head);
    if (head->status == 100 || head_.minor_version == 0) continue;
    const std::string interim =
        to_text(plan_response(std::move(*head), Upgrade::none, 1, Persistence::keep));
    co_await client_.channel.write(interim, timeouts.body);
  }
  fail(502, "the origin sends interim answers without end");
  co_return std::nullopt;
}

// Takes what of the answer is there already; true where the origin has ended the connection, too:
// then it is known before the client has seen anything whether the answer is whole.
bool RequestExchange::gather_response() {
  Upstream& upstream = *client_.upstream;
  std::vector<char>& scratch = upstream.channel->set().scratch();
  while (upstream.received.size() < piece_bytes) {
    const Transfer got = upstream.channel->try_read(scratch.data(), scratch.size());
    if (got.kind == Transfer::Kind::needs_read || got.kind == Transfer::Kind::needs_write)
      return false;
    if (got.kind != Transfer::Kind::bytes) return true;
    upstream.received.append(scratch.data(), got.bytes);
  }
  return false;
}

asio::awaitable<void> RequestExchange::pass_response(ResponseHead response) {
  using Kind = BodyFraming::Kind;
  Upstream& upstream = *client_.upstream;
  const auto framing = plan_response_body(response, head_.method);
  if (!framing) {
    fail(502, framing.error().text);
    co_return;
  }
  judged_.decision.status = response.status;
  BodyReader reader(*framing);
  const bool is_chunked = framing->kind == Kind::chunked && head_.minor_version == 1;
  const BodyEncoding encoding = is_chunked ? BodyEncoding::chunked : BodyEncoding::identity;
  auto first = take_body(upstream.received, reader, encoding, {});
  bool is_short = false;
  if (first && !reader.done() && framing->kind != Kind::until_close) {
    is_short = gather_response();
    auto more = take_body(upstream.received, reader, encoding, {});
    is_short = is_short && !reader.done();
    if (more)
      *first += *more;
    else
      first = std::move(more);
  }
  if (!first || is_short) {
    fail(502, first ? "the origin's answer ends before its end" : first.error().text);
    co_return;
  }
  const bool delimited = framing->kind != Kind::until_close &&
                         !(framing->kind == Kind::chunked && head_.minor_version == 0);
  keeps_client_ = delimited && is_persistent(head_.fields, head_.minor_version);
  keeps_upstream_ =
      framing->kind != Kind::until_close && is_persistent(response.fields, response.minor_version);
  std::string ready =
      to_text(plan_response(std::move(response), Upgrade::none, head_.minor_version,
                            keeps_client_ ? Persistence::keep : Persistence::close)) +
      *first;
  answered_ = true;
  const BufferShare share(core_, session_, reader.done() ? 0 : stream_buffer_bytes);
  BodyTransfer transfer{*upstream.channel,
                        upstream.received,
                        reader,
                        client_.channel,
                        encoding,
                        {},
                        core_.settings.timeouts.body,
                        share.piece(),
                        judged_.traffic.down};
  const BodyEnd end = co_await pass_body(transfer, std::move(ready));
  complete_ = end.kind == BodyEnd::Kind::done;
  if (end.kind == BodyEnd::Kind::sink_failed) client_.channel.cut();
}

asio::awaitable<void> RequestExchange::become_websocket(ResponseHead response) {
  Upstream& upstream = *client_.upstream;
  judged_.decision.status = 101;
  answered_ = true;
  const TunnelEntry entry(
      session_, OpenTunnel{judged_.destination().authority, head_.method, upstream.address,
                           upstream.network, &client_.channel, upstream.channel.get()});
  // From here on a new policy finds it in the list; one that came before does not.
  if (!judged_.is_current() && judged_.judge_now()) co_return;
  std::string first_down =
      to_text(plan_response(std::move(response), Upgrade::websocket, 1, Persistence::keep)) +
      std::exchange(upstream.received, {});
  Relay relay(client_.channel, *upstream.channel, judged_.traffic, core_.settings.timeouts.tunnel);
  co_await relay.run(std::exchange(client_.received, {}), std::move(first_down));
  complete_ = true;
}

asio::awaitable<Next> RequestExchange::finish() {
  if (upgraded_) {
    client_.upstream.reset();
    co_return Next::done;
  }
  if (!answered_) {
    client_.upstream.reset();
    if (upload_end_.kind == BodyEnd::Kind::source_refused)
      failure_ = JudgedRequest::refuse_bad(upload_end_.fault);
    else if (failure_)
      ++core_.counters.upstream_failures;
    if (!failure_ || client_.channel.is_cut()) co_return Next::done;
    const Next next = co_await answer(*std::exchange(failure_, std::nullopt));
    co_return next;
  }
  if (!complete_) {
    // The client must see that the answer is not whole, whatever delimits it.
    client_.upstream.reset();
    boost::system::error_code ignored;
    client_.channel.socket().set_option(asio::socket_base::linger(true, 0), ignored);
    client_.channel.socket().close(ignored);
    judged_.decision.reason += ", the answer was not whole";
    co_return Next::done;
  }
  client_.upstream->used = true;
  const bool is_sent = upload_end_.kind == BodyEnd::Kind::done;
  if (!keeps_upstream_ || !is_sent) client_.upstream.reset();
  if (is_sent) co_return keeps_client_ ? Next::request : Next::linger;
  const bool drained = upload_end_.kind == BodyEnd::Kind::sink_failed && co_await drain_request();
  co_return drained&& keeps_client_ ? Next::request : Next::linger;
}

asio::awaitable<Next> RequestExchange::answer(Refusal refusal) {
  judged_.decision.status = refusal.answer.status;
  judged_.decision.reason = std::move(refusal.reason);
  if (!reader_ || awaits_continue_ || framing_.length > max_drained_bytes ||
      !is_persistent(head_.fields, head_.minor_version))
    refusal.answer.persistence = Persistence::close;
  const auto body = head_.method == "HEAD" ? AnswerBody::omitted : AnswerBody::sent;
  const std::string text = to_text(refusal.answer, body);
  const bool sent = co_await client_.channel.write(text, core_.settings.timeouts.body);
  judged_.traffic.down += text.size();
  if (!sent) co_return Next::done;
  if (refusal.answer.persistence == Persistence::close) co_return Next::linger;
  const bool drained = co_await drain_request();
  co_return drained ? Next::request : Next::linger;
}

// Takes the rest of the request's body out of the way. False: the connection can't go on.
asio::awaitable<bool> RequestExchange::drain_request() {
  std::uint64_t taken = 0;
  for (;;) {
    const auto body = take_body(client_.received, *reader_, BodyEncoding::identity, {});
    if (!body) co_return false;
    if (reader_->done()) co_return true;
    taken += body->size();
    if (taken > max_drained_bytes) co_return false;
    const ReadEnd end = co_await client_.channel.read(client_.received, piece_bytes, drain_limit);
    if (end != ReadEnd::data) co_return false;
  }
}

}  // namespace daiv::proxy
