#pragma once

#include <memory>

#include "api/stream.hpp"
#include "api/tls_credentials.hpp"

namespace daiv::api {

// A Stream that speaks TLS, as the server, over another one.
class TlsStream final : public Stream {
public:
  TlsStream(std::unique_ptr<Stream> transport, const TlsContext& context);
  ~TlsStream() override;
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  enum class Handshake { done, failed };
  // Comes before anything else; the whole of it takes at most `limit`. After a failed one the
  // stream is good for nothing.
  boost::asio::awaitable<Handshake> handshake(std::chrono::milliseconds limit);

  // A client that closes without saying so (RFC 8446, section 6.1) is `closed` like any other: the
  // requests themselves tell where they end.
  boost::asio::awaitable<ReadResult> read_some(char* data, std::size_t size,
                                               std::chrono::milliseconds limit) override;
  // `limit` holds for each 64 KiB.
  boost::asio::awaitable<WriteEnd> write(std::string_view bytes,
                                         std::chrono::milliseconds limit) override;
  boost::asio::awaitable<void> finish_writing(std::chrono::milliseconds limit) override;
  [[nodiscard]] std::string_view scheme() const noexcept override { return "https"; }
  [[nodiscard]] std::string peer_address() const override;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daiv::api
