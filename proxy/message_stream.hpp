#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>

#include "proxy/channel.hpp"
#include "proxy/http_body.hpp"
#include "proxy/http_head.hpp"

// Heads and bodies of HTTP/1 messages on channels; the parsers decide, this moves bytes.
namespace daiv::proxy {

struct HeadRead {
  enum class End {
    head,     // the first `size` bytes of what was received
    closed,   // before the first byte of a head
    quiet,    // not one byte within the limit for that
    slow,     // a head that was begun and not finished within the limit
    failed,   // the connection, within a head or before
    refused,  // see `fault`
  } end = End::head;
  std::size_t size = 0;
  HttpFault fault;
};

struct HeadLimits {
  std::chrono::milliseconds first_byte;
  std::chrono::milliseconds whole;
};

// Reads into `received`, whose beginning may be there already, until it holds a head.
boost::asio::awaitable<HeadRead> read_head(Channel& channel, std::string& received,
                                           HeadScanner::Kind kind, HeadLimits limits);

// What an answer's head that did not come is called.
std::string describe_head_end(HeadRead::End end);

enum class BodyEncoding { identity, chunked };

struct BodyEnd {
  enum class Kind {
    done,
    source_refused,  // bad framing: see `fault`
    source_ended,    // before the body's end
    source_slow,
    sink_failed,
  } kind = Kind::done;
  HttpFault fault;
};

// A body on its way from one channel to another.
struct BodyTransfer {
  Channel& from;
  std::string& received;  // from `from`; what lies behind the body stays in it
  BodyReader& reader;
  Channel& to;
  BodyEncoding encoding = BodyEncoding::identity;
  std::string dropped_trailer;             // a name; empty: none
  const std::chrono::milliseconds& limit;  // for each step; may change on the way
  std::size_t piece_bytes;
  std::uint64_t& count;  // bytes sent
};

// Takes body bytes out of `received`, in their new framing; the last chunk too, where it is there.
std::expected<std::string, HttpFault> take_body(std::string& received, BodyReader& reader,
                                                BodyEncoding encoding,
                                                const std::string& dropped_trailer);

// Sends `ready`, then the body as it comes: nothing waits for more than has arrived.
boost::asio::awaitable<BodyEnd> pass_body(BodyTransfer& transfer, std::string ready);

}  // namespace daiv::proxy
