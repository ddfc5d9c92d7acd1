#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace daiv::api::test {

// A fresh self-signed pair, PEM. `serial` tells one from another.
struct TlsPair {
  std::string certificate;
  std::string key;
};
TlsPair make_tls_pair(long serial);

// A blocking TLS client; every read fails after ten seconds.
class TlsClient {
public:
  struct Options {
    std::string_view protocols = "\x02h2\x08http/1.1";  // as ALPN carries them
    int max_version = TLS1_3_VERSION;
  };

  explicit TlsClient(std::uint16_t port) : TlsClient(port, Options()) {}
  TlsClient(std::uint16_t port, const Options& options);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  [[nodiscard]] bool connected() const noexcept { return connected_; }
  [[nodiscard]] std::string protocol() const;  // that was agreed on
  [[nodiscard]] std::string version() const;   // "TLSv1.3"
  [[nodiscard]] long serial() const;           // of the server's certificate
  void send(std::string_view bytes);
  // What comes until the server closes.
  std::string read_to_end();
  // Whether that was said with close_notify.
  [[nodiscard]] bool closed_properly() const noexcept { return closed_properly_; }
  void request_key_update();
  void abort();  // closes the socket without a word

private:
  int socket_ = -1;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  bool connected_ = false;
  bool closed_properly_ = false;
};

}  // namespace daiv::api::test
