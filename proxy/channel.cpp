#include "proxy/channel.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <openssl/err.h>

#include <algorithm>
#include <cstring>

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace daiv::proxy {
namespace {

constexpr unsigned max_streak = 8;
constexpr milliseconds linger_limit{2000};
constexpr std::size_t max_linger_bytes = 1U << 20;

bool would_block(const error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again ||
         error == asio::error::interrupted;
}

}  // namespace

// A channel's socket as OpenSSL sees it. Its own socket BIO would write(2), and a closed peer would
// raise SIGPIPE (BIO_s_socket(3)); it could not be given bytes that were read before either.
struct ChannelBio {
  static Channel& channel(BIO* bio) { return *static_cast<Channel*>(::BIO_get_data(bio)); }

  static int write(BIO* bio, const char* data, std::size_t size, std::size_t* written) {
    ::BIO_clear_retry_flags(bio);
    error_code error;
    // More records follow at once: the kernel may put them into one segment.
    const int flags = channel(bio).more_follows_ ? MSG_MORE : 0;
    *written = channel(bio).socket_.send(asio::buffer(data, size), flags, error);
    if (!error) return 1;
    if (would_block(error)) ::BIO_set_retry_write(bio);
    return 0;
  }

  static int read(BIO* bio, char* data, std::size_t size, std::size_t* taken) {
    ::BIO_clear_retry_flags(bio);
    ::BIO_clear_flags(bio, BIO_FLAGS_IN_EOF);
    std::string& prefix = channel(bio).prefix_;
    if (!prefix.empty()) {
      *taken = std::min(size, prefix.size());
      std::memcpy(data, prefix.data(), *taken);
      prefix.erase(0, *taken);
      return 1;
    }
    error_code error;
    *taken = channel(bio).socket_.read_some(asio::buffer(data, size), error);
    if (!error) return 1;
    if (would_block(error)) ::BIO_set_retry_read(bio);
    if (error == asio::error::eof) ::BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return 0;
  }

  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return ::BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static BIO_METHOD* method() {
    using Method = std::unique_ptr<BIO_METHOD, FreeWith<::BIO_meth_free>>;
    static const Method method = [] {
      Method made(::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "channel"));
      require(made != nullptr, "BIO_meth_new");
      ::BIO_meth_set_write_ex(made.get(), write);
      ::BIO_meth_set_read_ex(made.get(), read);
      ::BIO_meth_set_ctrl(made.get(), control);
      return made;
    }();
    return method.get();
  }

  static BioPtr make(Channel& channel) {
    BioPtr bio(::BIO_new(method()));
    require(bio != nullptr, "BIO_new");
    ::BIO_set_data(bio.get(), &channel);
    ::BIO_set_init(bio.get(), 1);
    return bio;
  }
};

void ChannelSet::cut_all() {
  for (Channel* member : members_) member->cut();
}

void ChannelSet::expire(steady_clock::time_point now) {
  for (Channel* member : members_) {
    if (member->read_until_ > now && member->write_until_ > now) continue;
    error_code ignored;
    // Wakes the waits of both directions; the one that has time left waits again.
    member->socket_.cancel(ignored);
  }
}

Channel::Channel(ChannelSet& set, asio::ip::tcp::socket socket)
    : set_(set), socket_(std::move(socket)) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  set_.members_.insert(this);
}

Channel::~Channel() {
  set_.members_.erase(this);
  // SSL_free(3) would take an SSL that was not shut down for a truncated one and make its session
  // unfit for being resumed, which since TLS 1.1 nothing asks for (RFC 4346 §7.2.1).
  if (ssl_) ::SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

asio::awaitable<std::string> Channel::handshake(SslPtr ssl, std::string prefix,
                                                milliseconds limit) {
  prefix_ = std::move(prefix);
  BioPtr bio = ChannelBio::make(*this);
  ::BIO_up_ref(bio.get());
  ::SSL_set0_rbio(ssl.get(), bio.get());
  ::SSL_set0_wbio(ssl.get(), bio.release());
  ssl_ = std::move(ssl);
  const auto until = steady_clock::now() + limit;
  for (;;) {
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(ssl_.get());
    if (result == 1) co_return std::string();
    const int code = ::SSL_get_error(ssl_.get(), result);
    if (code != SSL_ERROR_WANT_READ && code != SSL_ERROR_WANT_WRITE) {
      broken_ = true;
      const long verdict = ::SSL_get_verify_result(ssl_.get());
      if (verdict != X509_V_OK) co_return ::X509_verify_cert_error_string(verdict);
      if (::ERR_peek_error() == 0) co_return "the connection was closed in the handshake";
      const char* reason = ::ERR_reason_error_string(::ERR_peek_last_error());
      std::string text = reason == nullptr ? "handshake failed" : reason;
      co_return text;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    const auto direction = code == SSL_ERROR_WANT_READ ? Direction::read : Direction::write;
    const Wake wake = co_await wait(direction, std::max(left, milliseconds(0)));
    if (wake == Wake::ready) continue;
    broken_ = true;
    co_return wake == Wake::timeout ? "timed out in the handshake" : "the connection was closed";
  }
}

asio::awaitable<error_code> Channel::connect(asio::ip::tcp::endpoint endpoint, milliseconds limit) {
  if (cut_) co_return asio::error::operation_aborted;
  write_until_ = steady_clock::now() + limit;
  const auto result = co_await socket_.async_connect(endpoint, asio::as_tuple(asio::use_awaitable));
  error_code error = std::get<0>(result);
  const bool expired = steady_clock::now() >= write_until_;
  write_until_ = steady_clock::time_point::max();
  if (error == asio::error::operation_aborted && expired && !cut_) error = asio::error::timed_out;
  if (!error && cut_) error = asio::error::operation_aborted;
  co_return error;
}

Transfer Channel::tls_outcome(int result) {
  const int code = ::SSL_get_error(ssl_.get(), result);
  switch (code) {
    case SSL_ERROR_WANT_READ:
      return {Transfer::Kind::needs_read, 0};
    case SSL_ERROR_WANT_WRITE:
      return {Transfer::Kind::needs_write, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {Transfer::Kind::end, 0};
    default:
      break;
  }
  broken_ = true;
  const bool silent_end = code == SSL_ERROR_SSL && ERR_GET_REASON(::ERR_peek_last_error()) ==
                                                       SSL_R_UNEXPECTED_EOF_WHILE_READING;
  return {silent_end ? Transfer::Kind::truncated : Transfer::Kind::failed, 0};
}

// All records that have arrived, up to `size`: each alone would be a round of its own for whoever
// passes them on.
Transfer Channel::try_read_tls(char* data, std::size_t size) {
  if (read_end_) return *read_end_;
  if (broken_) return {Transfer::Kind::failed, 0};
  std::size_t total = 0;
  do {
    ::ERR_clear_error();
    std::size_t taken = 0;
    const int result = ::SSL_read_ex(ssl_.get(), data + total, size - total, &taken);
    if (result != 1) {
      const Transfer outcome = tls_outcome(result);
      const bool waits =
          outcome.kind == Transfer::Kind::needs_read || outcome.kind == Transfer::Kind::needs_write;
      if (!waits) read_end_ = outcome;
      if (total == 0) return outcome;
      break;
    }
    total += taken;
  } while (total < size && ::SSL_has_pending(ssl_.get()) == 1);
  return {Transfer::Kind::bytes, total};
}

Transfer Channel::try_read(char* data, std::size_t size) {
  if (cut_) return {Transfer::Kind::failed, 0};
  if (ssl_) return try_read_tls(data, size);
  error_code error;
  const std::size_t taken = socket_.read_some(asio::buffer(data, size), error);
  if (!error) return {Transfer::Kind::bytes, taken};
  if (would_block(error)) return {Transfer::Kind::needs_read, 0};
  return {error == asio::error::eof ? Transfer::Kind::end : Transfer::Kind::failed, 0};
}

Transfer Channel::try_write(std::string_view data) {
  if (cut_ || broken_) return {Transfer::Kind::failed, 0};
  if (ssl_) {
    ::ERR_clear_error();
    std::size_t written = 0;
    more_follows_ = data.size() > SSL3_RT_MAX_PLAIN_LENGTH;
    const int result = ::SSL_write_ex(ssl_.get(), data.data(), data.size(), &written);
    more_follows_ = false;
    return result == 1 ? Transfer{Transfer::Kind::bytes, written} : tls_outcome(result);
  }
  error_code error;
  const std::size_t written = socket_.write_some(asio::buffer(data.data(), data.size()), error);
  if (!error) return {Transfer::Kind::bytes, written};
  return {would_block(error) ? Transfer::Kind::needs_write : Transfer::Kind::failed, 0};
}

asio::awaitable<Wake> Channel::wait(Direction direction, milliseconds limit) {
  const bool reading = direction == Direction::read;
  auto& until = reading ? read_until_ : write_until_;
  until = steady_clock::now() + limit;
  Wake wake = Wake::timeout;
  for (;;) {
    if (cut_) {
      wake = Wake::cut;
      break;
    }
    const auto type = reading ? asio::socket_base::wait_read : asio::socket_base::wait_write;
    const auto result = co_await socket_.async_wait(type, asio::as_tuple(asio::use_awaitable));
    const error_code error = std::get<0>(result);
    if (cut_) continue;
    if (error == asio::error::operation_aborted && steady_clock::now() < until) continue;
    if (!error) wake = Wake::ready;
    if (error && error != asio::error::operation_aborted) wake = Wake::failed;
    break;
  }
  until = steady_clock::time_point::max();
  co_return wake;
}

asio::awaitable<void> Channel::give_way() {
  if (++streak_ < max_streak) co_return;
  streak_ = 0;
  co_await asio::post(asio::use_awaitable);
}

asio::awaitable<ReadEnd> Channel::read(std::string& into, std::size_t max, milliseconds limit) {
  for (;;) {
    std::vector<char>& scratch = set_.scratch();
    const Transfer got = try_read(scratch.data(), std::min(max, scratch.size()));
    switch (got.kind) {
      case Transfer::Kind::bytes:
        into.append(scratch.data(), got.bytes);
        co_await give_way();
        co_return ReadEnd::data;
      case Transfer::Kind::end:
        co_return ReadEnd::end;
      case Transfer::Kind::truncated:
        co_return ReadEnd::truncated;
      case Transfer::Kind::failed:
        co_return ReadEnd::failed;
      case Transfer::Kind::needs_read:
      case Transfer::Kind::needs_write:
        break;
    }
    streak_ = 0;
    const auto direction =
        got.kind == Transfer::Kind::needs_read ? Direction::read : Direction::write;
    const Wake wake = co_await wait(direction, limit);
    if (wake == Wake::timeout) co_return ReadEnd::timeout;
    if (wake != Wake::ready) co_return ReadEnd::failed;
  }
}

asio::awaitable<bool> Channel::write(const std::string& data, milliseconds limit) {
  std::size_t done = 0;
  while (done < data.size()) {
    const Transfer sent = try_write(std::string_view(data).substr(done));
    done += sent.bytes;
    if (sent.kind == Transfer::Kind::bytes) continue;
    if (sent.kind != Transfer::Kind::needs_read && sent.kind != Transfer::Kind::needs_write)
      co_return false;
    const auto direction =
        sent.kind == Transfer::Kind::needs_read ? Direction::read : Direction::write;
    const Wake wake = co_await wait(direction, limit);
    if (wake != Wake::ready) co_return false;
  }
  co_return true;
}

void Channel::hasten_read(milliseconds limit) noexcept {
  if (read_until_ == steady_clock::time_point::max()) return;
  read_until_ = std::min(read_until_, steady_clock::now() + limit);
}

void Channel::finish_sending() noexcept {
  if (cut_) return;
  ::ERR_clear_error();
  if (ssl_ && !broken_) ::SSL_shutdown(ssl_.get());
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
}

asio::awaitable<void> Channel::linger() {
  finish_sending();
  const auto until = steady_clock::now() + linger_limit;
  std::size_t taken = 0;
  while (taken < max_linger_bytes && !cut_) {
    std::vector<char>& scratch = set_.scratch();
    error_code error;
    // Below TLS: what it says is of no interest any more.
    const std::size_t count = socket_.read_some(asio::buffer(scratch), error);
    taken += count;
    if (!error) continue;
    if (!would_block(error)) break;
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    const Wake wake = co_await wait(Direction::read, std::max(left, milliseconds(0)));
    if (wake != Wake::ready) break;
  }
}

void Channel::cut() noexcept {
  cut_ = true;
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_both, ignored);
  socket_.cancel(ignored);  // a connect in progress is no stream yet and does not see the shutdown
}

Protocol Channel::protocol() const noexcept {
  if (!ssl_) return Protocol::http1;
  const unsigned char* name = nullptr;
  unsigned size = 0;
  ::SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  const bool is_http2 = size == 2 && name[0] == 'h' && name[1] == '2';
  return is_http2 ? Protocol::http2 : Protocol::http1;
}

bool Channel::is_stale() {
  char byte = 0;
  const Transfer got = try_read(&byte, 1);
  return got.kind != Transfer::Kind::needs_read;
}

}  // namespace daiv::proxy
