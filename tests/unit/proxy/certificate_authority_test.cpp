#include "proxy/certificate_authority.hpp"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include "proxy/detail/leaf.hpp"

namespace daiv::proxy {
namespace {

using namespace std::chrono_literals;

const Time now = std::chrono::system_clock::now();

CertificatePtr read(const std::string& pem) {
  const BioPtr text(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return CertificatePtr(::PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
}

// Verifies as a strict client does; the text of the first error, "ok" when there is none.
std::string verify_strictly(const CertificateAuthority& authority, const Leaf& leaf,
                            const std::string& host) {
  const auto root = read(authority.trusted_pem());
  const std::unique_ptr<X509_STORE, FreeWith<::X509_STORE_free>> store(::X509_STORE_new());
  ::X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<X509_STORE_CTX, FreeWith<::X509_STORE_CTX_free>> context(
      ::X509_STORE_CTX_new());
  ::X509_STORE_CTX_init(context.get(), store.get(), leaf.impl().certificate.get(), nullptr);
  auto* parameters = ::X509_STORE_CTX_get0_param(context.get());
  ::X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
  ::X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER);
  if (HostName::parse(host)->is_address())
    ::X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str());
  else
    ::X509_VERIFY_PARAM_set1_host(parameters, host.c_str(), host.size());
  ::X509_verify_cert(context.get());
  return ::X509_verify_cert_error_string(::X509_STORE_CTX_get_error(context.get()));
}

// As `openssl req -x509 -newkey rsa:2048 -nodes` makes one, but for what `extensions` lists.
PemPair make_operator_ca(EVP_PKEY* key, const std::vector<std::pair<int, std::string>>& extensions,
                         Time from = now - 1h, Time until = now + 24h) {
  const CertificatePtr certificate(::X509_new());
  ::X509_set_version(certificate.get(), X509_VERSION_3);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate.get()), 7);
  ::X509_set_pubkey(certificate.get(), key);
  ::ASN1_TIME_set(::X509_getm_notBefore(certificate.get()),
                  std::chrono::system_clock::to_time_t(from));
  ::ASN1_TIME_set(::X509_getm_notAfter(certificate.get()),
                  std::chrono::system_clock::to_time_t(until));
  ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("operator"), -1, -1, 0);
  ::X509_set_issuer_name(certificate.get(), ::X509_get_subject_name(certificate.get()));
  for (const auto& [nid, value] : extensions) {
    X509V3_CTX context;
    ::X509V3_set_ctx(&context, certificate.get(), certificate.get(), nullptr, nullptr, 0);
    const ExtensionPtr extension(::X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
    ::X509_add_ext(certificate.get(), extension.get(), -1);
  }
  const bool edwards = ::EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519;
  ::X509_sign(certificate.get(), key, edwards ? nullptr : ::EVP_sha256());
  const BioPtr certificate_text(::BIO_new(::BIO_s_mem()));
  const BioPtr key_text(::BIO_new(::BIO_s_mem()));
  ::PEM_write_bio_X509(certificate_text.get(), certificate.get());
  ::PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  const auto text = [](BIO* bio) {
    char* data = nullptr;
    const long size = ::BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<std::size_t>(size));
  };
  return {text(certificate_text.get()), text(key_text.get())};
}

const std::vector<std::pair<int, std::string>> seed_extensions{
    {NID_subject_key_identifier, "hash"},
    {NID_authority_key_identifier, "keyid:always"},
    {NID_basic_constraints, "critical,CA:TRUE"}};

KeyPtr rsa() { return KeyPtr(::EVP_RSA_gen(2048)); }

TEST(CertificateAuthority, ACreatedOneHasNoWeaknessAndItsLeavesPassStrictClients) {
  const auto authority =
      CertificateAuthority::load(create_ca("egress", now, std::chrono::days(3650)), now);
  ASSERT_TRUE(authority) << authority.error();
  EXPECT_TRUE(authority->weaknesses().empty());
  for (const std::string host : {"a.test", "under_score.test", "198.18.0.7", "2001:db8::1"})
    EXPECT_EQ(verify_strictly(*authority, authority->issue(*HostName::parse(host), now), host),
              "ok")
        << host;
}

TEST(CertificateAuthority, OneWithoutKeyUsageIsNamedAndReissuedForTheSameKey) {
  const auto key = rsa();
  const auto pair = make_operator_ca(key.get(), seed_extensions);
  const auto authority = CertificateAuthority::load(pair, now);
  ASSERT_TRUE(authority) << authority.error();
  EXPECT_EQ(authority->weaknesses(), std::vector<std::string>{"it has no keyUsage"});
  EXPECT_NE(authority->trusted_pem(), pair.certificate);
  EXPECT_EQ(::EVP_PKEY_eq(::X509_get0_pubkey(read(authority->trusted_pem()).get()), key.get()), 1);
  EXPECT_EQ(
      verify_strictly(*authority, authority->issue(*HostName::parse("a.test"), now), "a.test"),
      "ok");
}

TEST(CertificateAuthority, EveryKindOfKeyWorks) {
  std::vector<KeyPtr> keys;
  keys.push_back(rsa());
  keys.emplace_back(::EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-384"));
  keys.emplace_back(::EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  for (const auto& key : keys) {
    const auto authority =
        CertificateAuthority::load(make_operator_ca(key.get(), seed_extensions), now);
    ASSERT_TRUE(authority) << authority.error();
    EXPECT_EQ(
        verify_strictly(*authority, authority->issue(*HostName::parse("a.test"), now), "a.test"),
        "ok");
  }
}

TEST(CertificateAuthority, ACustomKeyIdentifierIsKeptAndNamedByTheLeaves) {
  const auto key = rsa();
  const auto authority = CertificateAuthority::load(
      make_operator_ca(key.get(), {{NID_subject_key_identifier, "0102030405"},
                                   {NID_basic_constraints, "critical,CA:TRUE"}}),
      now);
  ASSERT_TRUE(authority);
  const auto leaf = authority->issue(*HostName::parse("a.test"), now);
  const auto* named = ::X509_get0_authority_key_id(leaf.impl().certificate.get());
  ASSERT_NE(named, nullptr);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(::ASN1_STRING_get0_data(named)),
                        static_cast<std::size_t>(::ASN1_STRING_length(named))),
            "\x01\x02\x03\x04\x05");
  EXPECT_EQ(verify_strictly(*authority, leaf, "a.test"), "ok");
}

TEST(CertificateAuthority, ALeafLivesShorterThanBrowsersAllowAndNeverLongerThanItsCa) {
  const auto key = rsa();
  const auto authority =
      CertificateAuthority::load(make_operator_ca(key.get(), seed_extensions), now);
  ASSERT_TRUE(authority);
  EXPECT_LE(authority->issue(*HostName::parse("a.test"), now).expires(), authority->expires());
  const auto lasting =
      CertificateAuthority::load(create_ca("egress", now, std::chrono::days(3650)), now);
  EXPECT_LE(lasting->issue(*HostName::parse("a.test"), now).expires(),
            now + std::chrono::days(197));
}

TEST(CertificateAuthority, ANameTooLongForACommonNameIsInTheSanAlone) {
  const auto authority =
      CertificateAuthority::load(create_ca("egress", now, std::chrono::days(3650)), now);
  const std::string host = std::string(60, 'a') + "." + std::string(60, 'b') + ".test";
  const auto leaf = authority->issue(*HostName::parse(host), now);
  EXPECT_EQ(::X509_NAME_entry_count(::X509_get_subject_name(leaf.impl().certificate.get())), 0);
  EXPECT_EQ(verify_strictly(*authority, leaf, host), "ok");
}

TEST(CertificateAuthority, WhatIsNoUsablePairIsRefusedWithWords) {
  const auto key = rsa();
  const auto other = rsa();
  const auto good = make_operator_ca(key.get(), seed_extensions);
  const auto refuse = [&](const PemPair& pair) {
    const auto authority = CertificateAuthority::load(pair, now);
    EXPECT_FALSE(authority);
    return authority ? std::string() : authority.error();
  };
  EXPECT_NE(refuse({"", good.key}).find("not a PEM certificate"), std::string::npos);
  EXPECT_NE(refuse({good.certificate, "junk"}).find("private key"), std::string::npos);
  EXPECT_NE(refuse({good.certificate, make_operator_ca(other.get(), seed_extensions).key})
                .find("does not belong"),
            std::string::npos);
  EXPECT_NE(
      refuse(make_operator_ca(key.get(), {{NID_basic_constraints, "CA:FALSE"}})).find("not a CA"),
      std::string::npos);
  EXPECT_NE(
      refuse(make_operator_ca(key.get(), seed_extensions, now - 48h, now - 24h)).find("expired"),
      std::string::npos);
  EXPECT_NE(refuse(make_operator_ca(key.get(), seed_extensions, now + 24h, now + 48h))
                .find("not valid yet"),
            std::string::npos);
}

}  // namespace
}  // namespace daiv::proxy
