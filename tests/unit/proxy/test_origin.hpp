#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "os/unique_fd.hpp"
#include "proxy/certificate_authority.hpp"
#include "proxy/detail/tls_handle.hpp"

namespace daiv::proxy::testing {

// A blocking TCP connection, plain or TLS, with a time limit of 20 s on each read: a test that
// would hang fails instead.
class Peer {
public:
  explicit Peer(os::UniqueFd socket);

  // Both return false where the handshake fails.
  bool accept_tls(SSL_CTX* context);
  // `name`: the SNI, none if empty; verified against `roots` for `verified` unless that is empty.
  struct TlsOptions {
    std::string name;
    std::string verified;
    std::string roots_pem;
    std::string alpn;  // one protocol, none if empty
    SSL_SESSION* resume = nullptr;
  };
  bool connect_tls(const TlsOptions& options);

  // False where the peer has gone.
  bool send(std::string_view data);
  // Some bytes; empty at the end of the stream or when it is broken.
  std::string receive();
  // Up to and with `mark`; what was there before the end where it does not come.
  std::string receive_until(std::string_view mark);
  std::string receive_bytes(std::size_t count);
  std::string receive_all();
  // Whether the stream ends here, without another byte.
  bool at_end();

  void finish_sending();
  void reset();  // closes with RST
  void close();

  // A head, then a body as Content-Length or chunks delimit it.
  struct Message {
    std::string head;
    std::string body;
  };
  Message receive_message();

  [[nodiscard]] SSL* ssl() const { return ssl_.get(); }
  [[nodiscard]] const os::UniqueFd& socket() const { return socket_; }

private:
  bool fill();

  os::UniqueFd socket_;
  SslContextPtr context_;
  SslPtr ssl_;
  std::string buffered_;
};

std::uint16_t port_of(const os::UniqueFd& socket);
os::UniqueFd listen_on_loopback();
os::UniqueFd connect_to_loopback(std::uint16_t port);

// An origin on loopback: each connection is served by `script` on a thread of its own.
class TestOrigin {
public:
  using Script = std::function<void(Peer&)>;
  // `protocols` are what ALPN may settle on, as they go over the wire; empty: no ALPN.
  explicit TestOrigin(Script script, const std::optional<Leaf>& leaf = std::nullopt,
                      std::string protocols = {});
  ~TestOrigin();
  TestOrigin(const TestOrigin&) = delete;
  TestOrigin& operator=(const TestOrigin&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int connections() const { return connections_; }

private:
  void accept();

  Script script_;
  std::string protocols_;
  SslContextPtr context_;  // empty: plain
  os::UniqueFd listener_;
  std::uint16_t port_;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// Answers each request with what it received: its head and body are the answer's body.
void echo(Peer& peer);

}  // namespace daiv::proxy::testing
