#include "tls_client.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace daiv::api::test {
namespace {

std::string take_text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

}  // namespace

TlsPair make_tls_pair(long serial) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const auto* name = reinterpret_cast<const unsigned char*>("localhost");
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, name, -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  BIO* const certificate_text = BIO_new(BIO_s_mem());
  BIO* const key_text = BIO_new(BIO_s_mem());
  EXPECT_EQ(PEM_write_bio_X509(certificate_text, certificate.get()), 1);
  EXPECT_EQ(PEM_write_bio_PrivateKey(key_text, key.get(), nullptr, nullptr, 0, nullptr, nullptr),
            1);
  return {take_text(certificate_text), take_text(key_text)};
}

TlsClient::TlsClient(std::uint16_t port, const Options& options)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
      ssl_(nullptr, SSL_free) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval limit{10, 0};
  EXPECT_EQ(setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  SSL_CTX_set_max_proto_version(context_.get(), options.max_version);
  ssl_.reset(SSL_new(context_.get()));
  SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(options.protocols.data()),
                      static_cast<unsigned>(options.protocols.size()));
  SSL_set_fd(ssl_.get(), socket_);
  connected_ = SSL_connect(ssl_.get()) == 1;
}

TlsClient::~TlsClient() { abort(); }

void TlsClient::abort() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

std::string TlsClient::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

std::string TlsClient::version() const { return SSL_get_version(ssl_.get()); }

long TlsClient::serial() const {
  const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  return certificate == nullptr ? 0 : ASN1_INTEGER_get(X509_get0_serialNumber(certificate));
}

void TlsClient::send(std::string_view bytes) {
  std::size_t count = 0;
  EXPECT_EQ(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count), 1);
}

std::string TlsClient::read_to_end() {
  std::string out;
  std::array<char, 16384> piece{};
  std::size_t count = 0;
  int result = 1;
  while ((result = SSL_read_ex(ssl_.get(), piece.data(), piece.size(), &count)) == 1)
    out.append(piece.data(), count);
  closed_properly_ = SSL_get_error(ssl_.get(), result) == SSL_ERROR_ZERO_RETURN;
  return out;
}

void TlsClient::request_key_update() {
  EXPECT_EQ(SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_REQUESTED), 1);
}

}  // namespace daiv::api::test
