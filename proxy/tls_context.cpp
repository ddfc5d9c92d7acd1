#include "proxy/tls_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "proxy/detail/leaf.hpp"

namespace daiv::proxy {
namespace {

constexpr std::size_t max_remembered_sessions = 64;
// Those of RFC 8446 §9.1, AES-128 first: every byte is deciphered and enciphered again, and
// AES-256 takes a third longer.
constexpr auto* cipher_suites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::size_t read_buffer_bytes = 67U << 10;  // four records a read(2)
// Protocol names as ALPN has them (RFC 7301 §3.1), the one that is preferred first.
constexpr std::array<unsigned char, 12> alpn_names{2,   'h', '2', 8,   'h', 't',
                                                   't', 'p', '/', '1', '.', '1'};
constexpr std::size_t alpn_http2_bytes = 3;  // of alpn_names; the rest is HTTP/1.1 alone

// A slot in every SSL for what our callbacks need; they are C functions and get nothing else. The
// value is a heap string that goes with its SSL.
void free_string(void*, void* value, CRYPTO_EX_DATA*, int, long, void*) {
  const std::unique_ptr<std::string> owned(static_cast<std::string*>(value));
}

int string_slot() {
  static const int slot =
      ::CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, nullptr, nullptr, nullptr, free_string);
  return slot;
}

void attach(SSL* ssl, std::string text) {
  auto owned = std::make_unique<std::string>(std::move(text));
  require(::SSL_set_ex_data(ssl, string_slot(), owned.get()) == 1, "SSL_set_ex_data");
  static_cast<void>(owned.release());  // the SSL's from here on
}

const std::string& attached(const SSL* ssl) {
  return *static_cast<const std::string*>(::SSL_get_ex_data(ssl, string_slot()));
}

// The CONNECT host was judged, so no other may be meant.
int check_server_name(SSL* ssl, int* alert, void*) noexcept {
  const char* name = ::SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (name == nullptr) return SSL_TLSEXT_ERR_NOACK;
  try {
    const auto host = HostName::parse(name);
    if (host && host->text() == attached(ssl)) return SSL_TLSEXT_ERR_OK;
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): may not cross OpenSSL; refuses
  }
  *alert = SSL_AD_UNRECOGNIZED_NAME;
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// The first of the client's that is spoken here: with the arguments in these places it is the
// client's order that counts (SSL_select_next_proto(3)).
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int offered_size, void*) noexcept {
  unsigned char* chosen = nullptr;
  const int outcome = ::SSL_select_next_proto(&chosen, out_size, offered, offered_size,
                                              alpn_names.data(), alpn_names.size());
  if (outcome != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

SslContextPtr make_context(const SSL_METHOD* method) {
  SslContextPtr context(::SSL_CTX_new(method));
  require(context != nullptr, "SSL_CTX_new");
  require(::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1,
          "SSL_CTX_set_min_proto_version");
  require(::SSL_CTX_set_ciphersuites(context.get(), cipher_suites) == 1,
          "SSL_CTX_set_ciphersuites");
  ::SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                           SSL_OP_CIPHER_SERVER_PREFERENCE);
  ::SSL_CTX_set_read_ahead(context.get(), 1);
  ::SSL_CTX_set_default_read_buffer_len(context.get(), read_buffer_bytes);
  return context;
}

}  // namespace

ClientTls::ClientTls() : context_(make_context(::TLS_server_method())) {
  // What SSL_CTX_set_tlsext_servername_callback(3) expands to, without its old-style cast.
  ::SSL_CTX_callback_ctrl(context_.get(), SSL_CTRL_SET_TLSEXT_SERVERNAME_CB,
                          reinterpret_cast<void (*)()>(check_server_name));
  ::SSL_CTX_set_alpn_select_cb(context_.get(), choose_protocol, nullptr);
  // Tickets alone: they cost no memory here.
  ::SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_OFF);
  require(::SSL_CTX_set_num_tickets(context_.get(), 1) == 1, "SSL_CTX_set_num_tickets");
}

SslPtr ClientTls::make(const Leaf& leaf, const HostName& expected) const {
  SslPtr ssl(::SSL_new(context_.get()));
  require(ssl != nullptr, "SSL_new");
  attach(ssl.get(), expected.text());
  // A session is resumed for the host that it was made for alone.
  const auto context_size = std::min<std::size_t>(expected.text().size(), SSL_MAX_SID_CTX_LENGTH);
  const auto* tail = expected.text().data() + (expected.text().size() - context_size);
  require(::SSL_set_session_id_context(ssl.get(), reinterpret_cast<const unsigned char*>(tail),
                                       static_cast<unsigned>(context_size)) == 1,
          "SSL_set_session_id_context");
  require(::SSL_use_certificate(ssl.get(), leaf.impl().certificate.get()) == 1,
          "SSL_use_certificate");
  require(::SSL_use_PrivateKey(ssl.get(), leaf.impl().key.get()) == 1, "SSL_use_PrivateKey");
  ::SSL_set_accept_state(ssl.get());
  return ssl;
}

TrustStore::TrustStore(const std::string& extra_file) : store_(::X509_STORE_new()) {
  require(store_ != nullptr, "X509_STORE_new");
  require(::X509_STORE_set_default_paths(store_.get()) == 1, "X509_STORE_set_default_paths");
  if (extra_file.empty()) return;
  if (::X509_STORE_load_file(store_.get(), extra_file.c_str()) != 1)
    throw std::runtime_error(
        fmt::format("load certificates {}: {}", extra_file, take_openssl_error()));
}

UpstreamTls::UpstreamTls(const TrustStore& trust) : context_(make_context(::TLS_client_method())) {
  require(::X509_STORE_up_ref(trust.get()) == 1, "X509_STORE_up_ref");
  ::SSL_CTX_set_cert_store(context_.get(), trust.get());
  ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  ::SSL_CTX_set_session_cache_mode(context_.get(),
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  ::SSL_CTX_sess_set_new_cb(context_.get(), take_session);
  require(SSL_CTX_set_app_data(context_.get(), this) == 1, "SSL_CTX_set_app_data");
}

SslPtr UpstreamTls::make(const HostName& host, std::uint16_t port, Protocols protocols) {
  SslPtr ssl(::SSL_new(context_.get()));
  require(ssl != nullptr, "SSL_new");
  const std::size_t skipped = protocols == Protocols::http1 ? alpn_http2_bytes : 0;
  require(::SSL_set_alpn_protos(ssl.get(), alpn_names.data() + skipped,
                                static_cast<unsigned>(alpn_names.size() - skipped)) == 0,
          "SSL_set_alpn_protos");
  const std::string key = fmt::format("{}:{}", host.in_url(), port);
  attach(ssl.get(), key);
  if (host.is_address()) {
    require(::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl.get()), host.text().c_str()) == 1,
            "X509_VERIFY_PARAM_set1_ip_asc");
  } else {
    ::SSL_set_hostflags(ssl.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    require(::SSL_set1_host(ssl.get(), host.text().c_str()) == 1, "SSL_set1_host");
    // SSL_set_tlsext_host_name(3), without its old-style cast; the text is copied.
    require(::SSL_ctrl(ssl.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                       const_cast<char*>(host.text().c_str())) == 1,
            "SSL_set_tlsext_host_name");
  }
  const auto found = std::ranges::find(sessions_, key, &Remembered::key);
  if (found != sessions_.end()) {
    // Used once: a ticket of TLS 1.3 that is used again links the connections (RFC 8446 §C.4).
    ::SSL_set_session(ssl.get(), found->session.get());
    sessions_.erase(found);
  }
  ::SSL_set_connect_state(ssl.get());
  return ssl;
}

int UpstreamTls::take_session(SSL* ssl, SSL_SESSION* session) {
  auto* self = static_cast<UpstreamTls*>(SSL_CTX_get_app_data(::SSL_get_SSL_CTX(ssl)));
  if (::SSL_SESSION_is_resumable(session) != 1 || ::SSL_get_verify_result(ssl) != X509_V_OK)
    return 0;
  try {
    self->remember(attached(ssl), TlsSessionPtr(session));
    // NOLINTNEXTLINE(bugprone-empty-catch): out of memory: `session` was freed with its owner
  } catch (const std::exception&) {
  }
  return 1;  // the session is ours
}

void UpstreamTls::remember(const std::string& key, TlsSessionPtr session) {
  std::erase_if(sessions_, [&](const Remembered& known) { return known.key == key; });
  sessions_.push_front(Remembered{key, std::move(session)});
  if (sessions_.size() > max_remembered_sessions) sessions_.pop_back();
}

}  // namespace daiv::proxy
