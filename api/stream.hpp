#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

// One client's byte stream. Connections know this interface alone; what it runs over (TCP, a unix
// socket, TLS) is decided in the one place that makes it. All calls run on the stream's executor,
// one at a time; a read may be cancelled and loses nothing.
namespace daiv::api {

enum class ReadEnd { data, closed, timed_out };
struct ReadResult {
  ReadEnd end = ReadEnd::data;
  std::size_t bytes = 0;
};

enum class WriteEnd { written, failed };  // failed: the peer is gone or did not read in time

class Stream {
public:
  virtual ~Stream() = default;

  // Reads what is there into [data, data + size), which must stay valid; waits for it at most
  // `limit`.
  virtual boost::asio::awaitable<ReadResult> read_some(char* data, std::size_t size,
                                                       std::chrono::milliseconds limit) = 0;

  // Writes all of `bytes`, which must stay valid.
  virtual boost::asio::awaitable<WriteEnd> write(std::string_view bytes,
                                                 std::chrono::milliseconds limit) = 0;

  // Sends the end of the stream; reading goes on.
  virtual boost::asio::awaitable<void> finish_writing(std::chrono::milliseconds limit) = 0;

  // "http" or "https".
  [[nodiscard]] virtual std::string_view scheme() const noexcept = 0;
  // The client's IP address; "unix" for a local one, empty where it is gone.
  [[nodiscard]] virtual std::string peer_address() const = 0;
};

}  // namespace daiv::api
