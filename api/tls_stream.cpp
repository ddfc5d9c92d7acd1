#include "api/tls_stream.hpp"

#include <boost/asio/use_awaitable.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <new>

namespace daiv::api {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t read_bytes = 16U << 10;
constexpr std::size_t write_bytes = 64U << 10;

milliseconds time_left(steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return std::max(left, milliseconds(0));
}

}  // namespace

// OpenSSL works on two memory buffers and never sees the socket: `incoming` gets what the transport
// brought, `outgoing` is what it is to send.
struct TlsStream::Impl {
  Impl(std::unique_ptr<Stream> below, const TlsContext& context)
      : transport(std::move(below)), ssl(SSL_new(context.get()), SSL_free) {
    incoming = BIO_new(BIO_s_mem());
    outgoing = BIO_new(BIO_s_mem());
    if (!ssl || incoming == nullptr || outgoing == nullptr) {
      BIO_free(incoming);
      BIO_free(outgoing);
      throw std::bad_alloc();
    }
    SSL_set_bio(ssl.get(), incoming, outgoing);  // which owns them now
    SSL_set_accept_state(ssl.get());
  }

  // Takes more from the transport.
  asio::awaitable<ReadEnd> receive(milliseconds limit) {
    std::array<char, read_bytes> buffer;
    const ReadResult result = co_await transport->read_some(buffer.data(), buffer.size(), limit);
    const int size = static_cast<int>(result.bytes);
    if (size > 0 && BIO_write(incoming, buffer.data(), size) != size) throw std::bad_alloc();
    co_return result.bytes > 0 ? ReadEnd::data : result.end;
  }

  // Hands to the transport what OpenSSL has to say.
  asio::awaitable<WriteEnd> flush(milliseconds limit) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(outgoing, &data);
    if (size <= 0) co_return broken ? WriteEnd::failed : WriteEnd::written;
    std::string bytes(data, static_cast<std::size_t>(size));
    static_cast<void>(BIO_reset(outgoing));
    // A record that was sent in part can't be taken back.
    if (broken || co_await transport->write(bytes, limit) == WriteEnd::failed) broken = true;
    co_return broken ? WriteEnd::failed : WriteEnd::written;
  }

  std::unique_ptr<Stream> transport;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl;
  BIO* incoming = nullptr;
  BIO* outgoing = nullptr;
  bool broken = false;
};

TlsStream::TlsStream(std::unique_ptr<Stream> transport, const TlsContext& context)
    : impl_(std::make_unique<Impl>(std::move(transport), context)) {}
TlsStream::~TlsStream() = default;

asio::awaitable<TlsStream::Handshake> TlsStream::handshake(milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(impl_->ssl.get());
    const int verdict = SSL_get_error(impl_->ssl.get(), result);
    const char* reason = ERR_reason_error_string(ERR_peek_error());
    // Also after a failure: the alert that tells the client why.
    const WriteEnd sent = co_await impl_->flush(time_left(deadline));
    if (result == 1 && sent == WriteEnd::written) co_return Handshake::done;
    if (verdict != SSL_ERROR_WANT_READ || sent == WriteEnd::failed) {
      spdlog::debug("event=tls_handshake_failed reason=\"{}\"",
                    reason == nullptr ? "closed" : reason);
      co_return Handshake::failed;
    }
    if (co_await impl_->receive(time_left(deadline)) != ReadEnd::data) co_return Handshake::failed;
  }
}

asio::awaitable<ReadResult> TlsStream::read_some(char* data, std::size_t size, milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  for (;;) {
    ERR_clear_error();
    std::size_t count = 0;
    const int result = SSL_read_ex(impl_->ssl.get(), data, size, &count);
    const int verdict = SSL_get_error(impl_->ssl.get(), result);
    if (result == 1) co_return ReadResult{ReadEnd::data, count};
    if (verdict != SSL_ERROR_WANT_READ) co_return ReadResult{ReadEnd::closed, 0};
    // An answer to the client's key update (RFC 8446, section 4.6.3).
    if (co_await impl_->flush(time_left(deadline)) == WriteEnd::failed)
      co_return ReadResult{ReadEnd::closed, 0};
    const ReadEnd end = co_await impl_->receive(time_left(deadline));
    if (end != ReadEnd::data) co_return ReadResult{end, 0};
  }
}

asio::awaitable<WriteEnd> TlsStream::write(std::string_view bytes, milliseconds limit) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, write_bytes);
    ERR_clear_error();
    std::size_t count = 0;
    if (impl_->broken || SSL_write_ex(impl_->ssl.get(), piece.data(), piece.size(), &count) != 1)
      co_return WriteEnd::failed;
    bytes.remove_prefix(count);
    if (co_await impl_->flush(limit) == WriteEnd::failed) co_return WriteEnd::failed;
  }
  co_return WriteEnd::written;
}

asio::awaitable<void> TlsStream::finish_writing(milliseconds limit) {
  ERR_clear_error();
  if (SSL_is_init_finished(impl_->ssl.get())) SSL_shutdown(impl_->ssl.get());
  co_await impl_->flush(limit);
  co_await impl_->transport->finish_writing(limit);
}

std::string TlsStream::peer_address() const { return impl_->transport->peer_address(); }

}  // namespace daiv::api
