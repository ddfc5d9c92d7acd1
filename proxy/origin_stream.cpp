#include "proxy/origin_stream.hpp"

#include <utility>

#include "proxy/forwarded_head.hpp"
#include "proxy/message_stream.hpp"

namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace daiv::proxy {
namespace {

using Piece = Http2Link::Piece;
using Work = OriginFault::Work;

std::unexpected<OriginFault> fault(int status, std::string text, Work work = Work::possible) {
  return std::unexpected(OriginFault{{status, std::move(text)}, work});
}

class Http2Origin final : public OriginStream {
public:
  Http2Origin(std::shared_ptr<Http2Upstream> upstream, std::int32_t id, bool used)
      : upstream_(std::move(upstream)), link_(upstream_->link), id_(id), used_(used) {}
  ~Http2Origin() override { link_.forget(id_); }

  asio::awaitable<bool> send(std::string data, milliseconds limit) override {
    return link_.write(id_, std::move(data), limit);
  }

  asio::awaitable<bool> finish(std::vector<Field> trailers, milliseconds limit) override {
    return link_.finish(id_, std::move(trailers), limit);
  }

  asio::awaitable<std::expected<OriginHead, OriginFault>> next_head(milliseconds limit) override {
    auto head = co_await link_.next_head(id_, limit);
    if (!head) co_return describe_silence();
    const bool is_last = head->is_last;
    auto response = read_http2_response(std::move(*head));
    if (!response) co_return fault(502, std::move(response.error().text));
    co_return OriginHead{std::move(*response), is_last};
  }

  asio::awaitable<Piece> read(milliseconds limit) override { return link_.read(id_, limit); }

  void consume(std::size_t count) override { link_.consume(id_, count); }

  std::vector<Field> trailers() override {
    const Http2Stream* stream = link_.find(id_);
    return stream == nullptr ? std::vector<Field>() : stream->trailers;
  }

  void cancel() override { link_.reset(id_, Http2Error::cancel); }

  void settle(Outcome) override { link_.forget(id_); }

private:
  std::unexpected<OriginFault> describe_silence() {
    const Http2Stream* stream = link_.find(id_);
    if (stream == nullptr || !stream->closed)
      return fault(504, "the origin did not answer in time");
    if (stream->error == Http2Error::refused_stream)
      return fault(502, "the origin refused the request", Work::none);
    if (!link_.takes_streams())
      return fault(502, "the connection to the origin was lost before its answer",
                   used_ ? Work::unlikely : Work::possible);
    return fault(502, "the origin closed the stream without an answer");
  }

  std::shared_ptr<Http2Upstream> upstream_;  // shared with the other requests on it
  Http2Link& link_;
  std::int32_t id_;
  bool used_;
};

class Http1Origin final : public OriginStream {
public:
  Http1Origin(std::shared_ptr<ProxyCore> core, std::shared_ptr<ProxiedSession> session,
              Upstream upstream, std::string method, BodyFraming framing)
      : core_(std::move(core)),
        session_(std::move(session)),
        upstream_(std::move(upstream)),
        channel_(*upstream_.channel),
        method_(std::move(method)),
        encoding_(framing.kind == BodyFraming::Kind::chunked ? BodyEncoding::chunked
                                                             : BodyEncoding::identity),
        is_sent_(framing.kind != BodyFraming::Kind::chunked && framing.length == 0),
        share_(*core_, *session_, stream_buffer_bytes) {}

  asio::awaitable<void> open(std::string text) {
    // Where it fails there may be an answer all the same; next_head() knows.
    co_await channel_.write(text, core_->settings.timeouts.body);
  }

  asio::awaitable<bool> send(std::string data, milliseconds limit) override {
    const std::string framed =
        encoding_ == BodyEncoding::chunked ? make_chunk(data) : std::move(data);
    const bool sent = co_await channel_.write(framed, limit);
    co_return sent;
  }

  asio::awaitable<bool> finish(std::vector<Field> trailers, milliseconds limit) override {
    const std::string last =
        encoding_ == BodyEncoding::chunked ? make_last_chunk(trailers) : std::string();
    is_sent_ = co_await channel_.write(last, limit);
    co_return is_sent_;
  }

  asio::awaitable<std::expected<OriginHead, OriginFault>> next_head(milliseconds limit) override {
    const HeadLimits limits{limit, core_->settings.timeouts.head};
    const HeadRead read =
        co_await read_head(channel_, upstream_.received, HeadScanner::Kind::response, limits);
    if (read.end != HeadRead::End::head) co_return describe_failure(read);
    auto head = parse_response_head(std::string_view(upstream_.received).substr(0, read.size));
    if (!head) co_return fault(502, std::move(head.error().text));
    upstream_.received.erase(0, read.size);
    const auto framing = plan_response_body(*head, method_);
    if (!framing) co_return fault(502, framing.error().text);
    if (head->status >= 200) {
      reader_.emplace(*framing);
      keeps_ = framing->kind != BodyFraming::Kind::until_close &&
               is_persistent(head->fields, head->minor_version);
    }
    co_return OriginHead{std::move(*head), reader_ && reader_->done()};
  }

  asio::awaitable<Piece> read(milliseconds limit) override {
    Piece piece;
    for (;;) {
      auto body = take_body(upstream_.received, *reader_, BodyEncoding::identity, {});
      if (!body) co_return piece;
      if (!body->empty()) {
        piece.kind = Piece::Kind::data;
        piece.data = std::move(*body);
        co_return piece;
      }
      if (reader_->done()) {
        piece.kind = Piece::Kind::end;
        co_return piece;
      }
      const ReadEnd end = co_await channel_.read(upstream_.received, share_.piece(), limit);
      if (end == ReadEnd::data || (end == ReadEnd::end && reader_->finish())) continue;
      if (end == ReadEnd::timeout) piece.kind = Piece::Kind::timeout;
      co_return piece;
    }
  }

  void consume(std::size_t) override {}

  std::vector<Field> trailers() override { return reader_->trailers(); }

  void cancel() override { channel_.cut(); }

  void settle(Outcome outcome) override {
    const bool is_clean = outcome == Outcome::whole && keeps_ && is_sent_ && !channel_.is_cut();
    if (!is_clean) return channel_.cut();
    upstream_.used = true;
    session_->keep_idle(std::move(upstream_));
  }

private:
  std::unexpected<OriginFault> describe_failure(const HeadRead& read) const {
    using End = HeadRead::End;
    const bool is_late = read.end == End::quiet || read.end == End::slow;
    if (read.end == End::refused)
      return fault(502, "the origin's header is malformed: " + read.fault.text);
    const bool is_stale = upstream_.used && !is_late && upstream_.received.empty();
    return fault(is_late ? 504 : 502, describe_head_end(read.end),
                 is_stale ? Work::unlikely : Work::possible);
  }

  std::shared_ptr<ProxyCore> core_;
  std::shared_ptr<ProxiedSession> session_;
  Upstream upstream_;
  Channel& channel_;
  std::string method_;
  BodyEncoding encoding_;
  std::optional<BodyReader> reader_;
  bool is_sent_;
  bool keeps_ = false;
  BufferShare share_;
};

}  // namespace

asio::awaitable<std::unique_ptr<OriginStream>> open_origin_stream(
    std::shared_ptr<ProxyCore> core, std::shared_ptr<ProxiedSession> session,
    Http2Upstreams::Lease lease, RequestHead head, BodyPresence body, std::string secret_name) {
  if (lease.http2) {
    const auto fields = make_http2_request(head, lease.http2->upstream.scheme);
    const auto id = lease.http2->link.open_stream(fields, body == BodyPresence::none, secret_name);
    if (!id) co_return nullptr;
    const bool used = std::exchange(lease.http2->upstream.used, true);
    co_return std::make_unique<Http2Origin>(std::move(lease.http2), *id, used);
  }
  const BodyFraming framing = frame_for_http1(head, body);
  auto origin = std::make_unique<Http1Origin>(std::move(core), std::move(session),
                                              std::move(*lease.http1), head.method, framing);
  const std::string text = to_text(head);
  co_await origin->open(text);
  co_return origin;
}

}  // namespace daiv::proxy
