#include "proxy/message_stream.hpp"

#include <algorithm>

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

constexpr std::size_t head_piece_bytes = 16U << 10;

}  // namespace

asio::awaitable<HeadRead> read_head(Channel& channel, std::string& received, HeadScanner::Kind kind,
                                    HeadLimits limits) {
  HeadScanner scanner(kind);
  auto until = steady_clock::now() + (received.empty() ? limits.first_byte : limits.whole);
  for (;;) {
    auto end = scanner.scan(received);
    HeadRead result;
    if (!end) {
      result.end = HeadRead::End::refused;
      result.fault = std::move(end.error());
      co_return result;
    }
    if (*end > 0) {
      result.size = *end;
      co_return result;
    }
    const bool begun = !received.empty();
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    const ReadEnd read =
        co_await channel.read(received, head_piece_bytes, std::max(left, milliseconds(0)));
    if (read == ReadEnd::data) {
      if (!begun) until = steady_clock::now() + limits.whole;
      continue;
    }
    if (read == ReadEnd::timeout)
      result.end = begun ? HeadRead::End::slow : HeadRead::End::quiet;
    else if (read == ReadEnd::failed || begun)
      result.end = HeadRead::End::failed;
    else
      result.end = HeadRead::End::closed;
    co_return result;
  }
}

std::string describe_head_end(HeadRead::End end) {
  switch (end) {
    case HeadRead::End::head:
    case HeadRead::End::refused:
      break;
    case HeadRead::End::closed:
      return "the origin closed the connection without an answer";
    case HeadRead::End::quiet:
      return "the origin did not answer in time";
    case HeadRead::End::slow:
      return "the origin did not finish its answer's head in time";
    case HeadRead::End::failed:
      return "the connection to the origin was lost before its answer";
  }
  return {};
}

std::expected<std::string, HttpFault> take_body(std::string& received, BodyReader& reader,
                                                BodyEncoding encoding,
                                                const std::string& dropped_trailer) {
  std::string body;
  if (!received.empty()) {
    const auto used = reader.feed(received, body);
    if (!used) return std::unexpected(used.error());
    received.erase(0, *used);
  }
  if (encoding == BodyEncoding::identity) return body;
  std::string framed = body.empty() ? std::string() : make_chunk(body);
  if (!reader.done()) return framed;
  std::vector<Field> trailers = reader.trailers();
  if (!dropped_trailer.empty()) remove_field(trailers, dropped_trailer);
  return framed + make_last_chunk(trailers);
}

asio::awaitable<BodyEnd> pass_body(BodyTransfer& transfer, std::string ready) {
  for (;;) {
    if (!transfer.reader.done()) {
      auto taken = take_body(transfer.received, transfer.reader, transfer.encoding,
                             transfer.dropped_trailer);
      if (!taken) {
        BodyEnd refused{BodyEnd::Kind::source_refused, std::move(taken.error())};
        co_return refused;
      }
      if (ready.empty())
        ready = std::move(*taken);
      else
        ready += *taken;
    }
    if (!ready.empty()) {
      const bool sent = co_await transfer.to.write(ready, transfer.limit);
      if (!sent) co_return BodyEnd{BodyEnd::Kind::sink_failed, {}};
      transfer.count += ready.size();
      ready.clear();
    }
    if (transfer.reader.done()) co_return BodyEnd{};
    const ReadEnd end =
        co_await transfer.from.read(transfer.received, transfer.piece_bytes, transfer.limit);
    if (end == ReadEnd::data) continue;
    // Without its own end TLS may have been cut by anybody (RFC 9112 §9.8).
    if (end == ReadEnd::end && transfer.reader.finish()) continue;
    const auto kind =
        end == ReadEnd::timeout ? BodyEnd::Kind::source_slow : BodyEnd::Kind::source_ended;
    co_return BodyEnd{kind, {}};
  }
}

}  // namespace daiv::proxy
