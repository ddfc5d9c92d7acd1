#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "proxy/certificate_authority.hpp"
#include "proxy/detail/tls_handle.hpp"
#include "proxy/host_name.hpp"

namespace daiv::proxy {

// What is offered to an origin by ALPN.
enum class Protocols { http1, http2_or_http1 };

// TLS towards a session's clients, 1.2 and 1.3; by ALPN HTTP/2 or HTTP/1.1, as the client prefers.
// Its ticket key is its own, so what one session's clients resume is of no use to another's.
class ClientTls {
public:
  ClientTls();

  // A server that shows `leaf`. A client that names another host than `expected` by SNI is refused
  // in the handshake (unrecognized_name); one that names none is served.
  [[nodiscard]] SslPtr make(const Leaf& leaf, const HostName& expected) const;

private:
  SslContextPtr context_;
};

// The roots that origins' certificates are verified against. Thread-safe, as X509_STORE is.
class TrustStore {
public:
  // The system's (SSL_CTX_set_default_verify_paths(3)) and those in `extra_file`, unless it is
  // empty. Throws std::runtime_error.
  explicit TrustStore(const std::string& extra_file);

  [[nodiscard]] X509_STORE* get() const noexcept { return store_.get(); }

private:
  StorePtr store_;
};

// TLS towards a session's origins: the chain and the name are verified, sessions are resumed.
class UpstreamTls {
public:
  explicit UpstreamTls(const TrustStore& trust);
  UpstreamTls(const UpstreamTls&) = delete;
  UpstreamTls& operator=(const UpstreamTls&) = delete;

  // A client for `host`, offered as SNI unless it is an address. The UpstreamTls outlives it.
  [[nodiscard]] SslPtr make(const HostName& host, std::uint16_t port, Protocols protocols);

private:
  struct Remembered {
    std::string key;
    TlsSessionPtr session;
  };

  static int take_session(SSL* ssl, SSL_SESSION* session);
  void remember(const std::string& key, TlsSessionPtr session);

  SslContextPtr context_;
  std::list<Remembered> sessions_;  // newest first
};

}  // namespace daiv::proxy
