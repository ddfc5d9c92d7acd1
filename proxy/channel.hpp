#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/detail/tls_handle.hpp"

namespace daiv::proxy {

class Channel;

// The connections of one session: they are cut together, and their deadlines are watched by one
// timer in place of one each. Outlives its channels.
class ChannelSet {
public:
  // `scratch` is one buffer for all: it holds bytes only between two suspensions.
  explicit ChannelSet(std::vector<char>& scratch) : scratch_(scratch) {}

  void cut_all();
  // Wakes the waits that are past their deadline; called at short intervals.
  void expire(std::chrono::steady_clock::time_point now);

  [[nodiscard]] std::vector<char>& scratch() noexcept { return scratch_; }
  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  // How many of its connections are relayed by pipes of the kernel.
  [[nodiscard]] std::size_t& splices() noexcept { return splices_; }

private:
  friend class Channel;
  std::vector<char>& scratch_;
  std::size_t splices_ = 0;
  std::set<Channel*> members_;
};

// What a read or write that never waits came to.
struct Transfer {
  enum class Kind {
    bytes,
    needs_read,
    needs_write,
    end,
    truncated,  // the peer closed TLS without saying so
    failed,
  } kind = Kind::bytes;
  std::size_t bytes = 0;
};

// What is spoken inside TLS, as ALPN settled it; without ALPN it is HTTP/1.
enum class Protocol { http1, http2 };

enum class Wake { ready, timeout, cut, failed };

enum class ReadEnd { data, end, truncated, timeout, failed };

// A TCP connection, plain or inside TLS. One coroutine may read while another writes. Confined to
// the proxy's thread.
class Channel {
public:
  Channel(ChannelSet& set, boost::asio::ip::tcp::socket socket);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // From now on bytes go through `ssl`. `prefix` was received before and belongs to TLS. Returns
  // what went wrong, as OpenSSL says it; empty: nothing.
  boost::asio::awaitable<std::string> handshake(SslPtr ssl, std::string prefix,
                                                std::chrono::milliseconds limit);

  // Connects the socket, which is open; returns what went wrong.
  boost::asio::awaitable<boost::system::error_code> connect(boost::asio::ip::tcp::endpoint endpoint,
                                                            std::chrono::milliseconds limit);

  Transfer try_read(char* data, std::size_t size);
  Transfer try_write(std::string_view data);

  enum class Direction { read, write };
  boost::asio::awaitable<Wake> wait(Direction direction, std::chrono::milliseconds limit);

  // Appends what arrives next, at most `max` bytes, to `into`.
  boost::asio::awaitable<ReadEnd> read(std::string& into, std::size_t max,
                                       std::chrono::milliseconds limit);

  // False where not all could be written within `limit` for each step.
  boost::asio::awaitable<bool> write(const std::string& data, std::chrono::milliseconds limit);

  // To be awaited after a read that did not have to wait: a peer that always has bytes ready must
  // not keep the thread from all others.
  boost::asio::awaitable<void> give_way();

  // Leaves a wait for reading that is under way no more than `limit`; a later one is not affected.
  void hasten_read(std::chrono::milliseconds limit) noexcept;

  // Says that nothing more is sent.
  void finish_sending() noexcept;

  // finish_sending(), then takes what the peer still sends for a while: closing with bytes unread
  // would reset the connection, and the peer could lose our last answer (RFC 9112 §9.6).
  boost::asio::awaitable<void> linger();

  // Ends all reads and writes, now and later.
  void cut() noexcept;
  [[nodiscard]] bool is_cut() const noexcept { return cut_; }

  // Whether the peer has closed or sent something that nobody asked for.
  bool is_stale();

  [[nodiscard]] Protocol protocol() const noexcept;
  [[nodiscard]] bool is_tls() const noexcept { return ssl_ != nullptr; }
  [[nodiscard]] boost::asio::ip::tcp::socket& socket() noexcept { return socket_; }
  [[nodiscard]] ChannelSet& set() noexcept { return set_; }

private:
  friend class ChannelSet;
  friend struct ChannelBio;

  Transfer try_read_tls(char* data, std::size_t size);
  Transfer tls_outcome(int result);

  ChannelSet& set_;
  boost::asio::ip::tcp::socket socket_;
  std::string prefix_;  // bytes that TLS is given before the socket's
  SslPtr ssl_;
  bool cut_ = false;
  bool more_follows_ = false;         // what is being written is not the end of its piece
  std::optional<Transfer> read_end_;  // how reading from TLS ended
  bool broken_ = false;               // TLS has failed: OpenSSL must not be called again
  unsigned streak_ = 0;               // reads that did not have to wait
  std::chrono::steady_clock::time_point read_until_ = std::chrono::steady_clock::time_point::max();
  std::chrono::steady_clock::time_point write_until_ = std::chrono::steady_clock::time_point::max();
};

}  // namespace daiv::proxy
