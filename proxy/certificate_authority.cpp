#include "proxy/certificate_authority.hpp"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "proxy/detail/leaf.hpp"
#include "proxy/detail/openssl_handle.hpp"

namespace daiv::proxy {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t max_common_name_bytes = 64;  // ub-common-name, RFC 5280 appendix A
constexpr std::chrono::days backdated{2};          // for clients whose clock is behind
constexpr std::chrono::days leaf_lifetime{
    190};  // browsers take no more than 200 (CA/Browser Forum, SC-081)

std::string to_pem(X509* certificate) {
  const BioPtr memory(::BIO_new(::BIO_s_mem()));
  require(::PEM_write_bio_X509(memory.get(), certificate) == 1, "PEM_write_bio_X509");
  char* data = nullptr;
  const long size = ::BIO_get_mem_data(memory.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string key_to_pem(EVP_PKEY* key) {
  const BioPtr memory(::BIO_new(::BIO_s_mem()));
  require(::PEM_write_bio_PKCS8PrivateKey(memory.get(), key, nullptr, nullptr, 0, nullptr,
                                          nullptr) == 1,
          "PEM_write_bio_PKCS8PrivateKey");
  char* data = nullptr;
  const long size = ::BIO_get_mem_data(memory.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

BioPtr open_text(const std::string& text) {
  return BioPtr(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Never asks on a terminal: an encrypted key is an error.
int no_passphrase(char*, int, int, void*) { return -1; }

Time to_time(const ASN1_TIME* time) {
  tm parts{};
  require(::ASN1_TIME_to_tm(time, &parts) == 1, "ASN1_TIME_to_tm");
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

void set_times(X509* certificate, Time from, Time until) {
  const auto seconds = [](Time time) { return std::chrono::system_clock::to_time_t(time); };
  require(::ASN1_TIME_set(::X509_getm_notBefore(certificate), seconds(from)) != nullptr &&
              ::ASN1_TIME_set(::X509_getm_notAfter(certificate), seconds(until)) != nullptr,
          "ASN1_TIME_set");
}

// 159 random bits, positive (RFC 5280 §4.1.2.2).
void set_random_serial(X509* certificate) {
  std::array<unsigned char, 20> bytes{};
  require(::RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "RAND_bytes");
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
  const std::unique_ptr<BIGNUM, FreeWith<::BN_free>> number(
      ::BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  require(
      number && ::BN_to_ASN1_INTEGER(number.get(), ::X509_get_serialNumber(certificate)) != nullptr,
      "BN_to_ASN1_INTEGER");
}

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(::X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  require(extension != nullptr && ::X509_add_ext(certificate, extension.get(), -1) == 1,
          ::OBJ_nid2sn(nid));
}

void set_common_name(X509* certificate, std::string_view name) {
  require(::X509_NAME_add_entry_by_NID(::X509_get_subject_name(certificate), NID_commonName,
                                       MBSTRING_UTF8,
                                       reinterpret_cast<const unsigned char*>(name.data()),
                                       static_cast<int>(name.size()), -1, 0) == 1,
          "X509_NAME_add_entry_by_NID");
}

CertificatePtr new_certificate(EVP_PKEY* key) {
  CertificatePtr certificate(::X509_new());
  require(certificate && ::X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
              ::X509_set_pubkey(certificate.get(), key) == 1,
          "X509_new");
  set_random_serial(certificate.get());
  return certificate;
}

// Ed25519 and Ed448 hash by themselves (X509_sign(3)).
void sign(X509* certificate, EVP_PKEY* key) {
  const int type = ::EVP_PKEY_get_base_id(key);
  const EVP_MD* digest =
      type == EVP_PKEY_ED25519 || type == EVP_PKEY_ED448 ? nullptr : ::EVP_sha256();
  require(::X509_sign(certificate, key, digest) > 0, "X509_sign");
}

void add_ca_extensions(X509* certificate) {
  add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
}

// What OpenSSL's -x509_strict and Python 3.13 ask of a CA (RFC 5280 §4.2.1).
std::vector<std::string> find_weaknesses(X509* certificate) {
  std::vector<std::string> found;
  const auto flags = ::X509_get_extension_flags(certificate);
  if ((flags & EXFLAG_KUSAGE) == 0)
    found.emplace_back("it has no keyUsage");
  else if ((::X509_get_key_usage(certificate) & KU_KEY_CERT_SIGN) == 0)
    found.emplace_back("its keyUsage lacks keyCertSign");
  if ((flags & EXFLAG_BCONS_CRITICAL) == 0)
    found.emplace_back("its basicConstraints is not critical");
  if (::X509_get0_subject_key_id(certificate) == nullptr)
    found.emplace_back("it has no subjectKeyIdentifier");
  return found;
}

// The same key, name and times; what was there of a key identifier stays, since leaves may refer to
// it.
CertificatePtr reissue(X509* weak, EVP_PKEY* key) {
  CertificatePtr certificate = new_certificate(key);
  require(::X509_set_subject_name(certificate.get(), ::X509_get_subject_name(weak)) == 1 &&
              ::X509_set_issuer_name(certificate.get(), ::X509_get_subject_name(weak)) == 1 &&
              ::X509_set1_notBefore(certificate.get(), ::X509_get0_notBefore(weak)) == 1 &&
              ::X509_set1_notAfter(certificate.get(), ::X509_get0_notAfter(weak)) == 1,
          "X509_set_subject_name");
  add_ca_extensions(certificate.get());
  const int at = ::X509_get_ext_by_NID(weak, NID_subject_key_identifier, -1);
  if (at >= 0)
    require(::X509_add_ext(certificate.get(), ::X509_get_ext(weak, at), -1) == 1, "X509_add_ext");
  else
    add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  sign(certificate.get(), key);
  return certificate;
}

KeyPtr new_key() {
  KeyPtr key(::EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  require(key != nullptr, "EVP_PKEY_Q_keygen");
  return key;
}

}  // namespace

struct CertificateAuthority::Impl {
  CertificatePtr certificate;  // the one that sandboxes trust
  KeyPtr key;
  // One key for all leaves: what is proved with it is only that this proxy speaks, and making one
  // costs more than a handshake.
  KeyPtr leaf_key;
};

std::expected<CertificateAuthority, std::string> CertificateAuthority::load(const PemPair& pair,
                                                                            Time now) {
  auto impl = std::make_shared<Impl>();
  impl->certificate.reset(
      ::PEM_read_bio_X509(open_text(pair.certificate).get(), nullptr, no_passphrase, nullptr));
  if (!impl->certificate)
    return std::unexpected("the certificate is not a PEM certificate: " + take_openssl_error());
  impl->key.reset(
      ::PEM_read_bio_PrivateKey(open_text(pair.key).get(), nullptr, no_passphrase, nullptr));
  if (!impl->key)
    return std::unexpected("the key is not an unencrypted PEM private key: " +
                           take_openssl_error());
  X509* certificate = impl->certificate.get();
  if (::X509_check_private_key(certificate, impl->key.get()) != 1)
    return std::unexpected("the certificate does not belong to the key");
  if (::X509_check_ca(certificate) != 1)
    return std::unexpected("the certificate is not a CA (basicConstraints CA:TRUE)");
  const Time expires = to_time(::X509_get0_notAfter(certificate));
  if (expires <= now) return std::unexpected("the certificate has expired");
  if (to_time(::X509_get0_notBefore(certificate)) > now)
    return std::unexpected("the certificate is not valid yet");
  auto weaknesses = find_weaknesses(certificate);
  if (!weaknesses.empty()) impl->certificate = reissue(certificate, impl->key.get());
  impl->leaf_key = new_key();
  const auto trusted = to_pem(impl->certificate.get());
  CertificateAuthority authority(std::move(impl));
  authority.weaknesses_ = std::move(weaknesses);
  authority.trusted_pem_ = trusted;
  authority.expires_ = expires;
  return authority;
}

Leaf CertificateAuthority::issue(const HostName& host, Time now) const {
  X509* issuer = impl_->certificate.get();
  CertificatePtr leaf = new_certificate(impl_->leaf_key.get());
  const bool has_name = host.text().size() <= max_common_name_bytes;
  if (has_name) set_common_name(leaf.get(), host.text());
  require(::X509_set_issuer_name(leaf.get(), ::X509_get_subject_name(issuer)) == 1,
          "X509_set_issuer_name");
  const Time until = std::min(now - backdated + leaf_lifetime, expires_);
  set_times(leaf.get(), std::max(now - backdated, to_time(::X509_get0_notBefore(issuer))), until);
  // Without a subject the SAN must be critical (RFC 5280 §4.2.1.6).
  add_extension(leaf.get(), issuer, NID_subject_alt_name,
                fmt::format("{}{}:{}", has_name ? "" : "critical,",
                            host.is_address() ? "IP" : "DNS", host.text()));
  add_extension(leaf.get(), issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(leaf.get(), issuer, NID_key_usage, "critical,digitalSignature");
  add_extension(leaf.get(), issuer, NID_ext_key_usage, "serverAuth");
  add_extension(leaf.get(), issuer, NID_subject_key_identifier, "hash");
  add_extension(leaf.get(), issuer, NID_authority_key_identifier, "keyid:always");
  sign(leaf.get(), impl_->key.get());
  auto owned = std::make_shared<Leaf::Impl>();
  owned->certificate = std::move(leaf);
  require(::EVP_PKEY_up_ref(impl_->leaf_key.get()) == 1, "EVP_PKEY_up_ref");
  owned->key.reset(impl_->leaf_key.get());
  owned->expires = until;
  return Leaf(std::move(owned));
}

Time Leaf::expires() const { return impl_->expires; }
std::string Leaf::certificate_pem() const { return to_pem(impl_->certificate.get()); }

PemPair create_ca(std::string_view common_name, Time now, std::chrono::days lifetime) {
  if (common_name.empty() || common_name.size() > max_common_name_bytes)
    throw std::runtime_error("the CA's name must have 1 to 64 bytes");
  const KeyPtr key = new_key();
  CertificatePtr certificate = new_certificate(key.get());
  set_common_name(certificate.get(), common_name);
  require(
      ::X509_set_issuer_name(certificate.get(), ::X509_get_subject_name(certificate.get())) == 1,
      "X509_set_issuer_name");
  set_times(certificate.get(), now - backdated, now + lifetime);
  add_ca_extensions(certificate.get());
  add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  sign(certificate.get(), key.get());
  return {to_pem(certificate.get()), key_to_pem(key.get())};
}

}  // namespace daiv::proxy
