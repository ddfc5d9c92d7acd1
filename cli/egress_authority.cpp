#include "cli/egress_authority.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::cli {
namespace {

constexpr std::size_t max_pem_bytes = 1U << 20;
constexpr std::size_t max_bundle_bytes = 2U << 20;
constexpr std::chrono::days expiry_notice{30};

constexpr std::array bundles{"/etc/ssl/certs/ca-certificates.crt",
                             "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                             "/etc/ssl/cert.pem"};

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate read_back(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  Certificate certificate(text ? PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr) : nullptr,
                          X509_free);
  if (!certificate) throw std::runtime_error("egress CA: its certificate can't be read back");
  return certificate;
}

std::string subject_hash(const Certificate& certificate) {
  return fmt::format("{:08x}", X509_subject_name_hash(certificate.get()) & 0xffffffffUL);
}

std::string encode_der(const Certificate& certificate) {
  std::string der(static_cast<std::size_t>(std::max(i2d_X509(certificate.get(), nullptr), 0)),
                  '\0');
  auto* end = reinterpret_cast<unsigned char*>(der.data());
  if (der.empty() || i2d_X509(certificate.get(), &end) <= 0)
    throw std::runtime_error("egress CA: its certificate can't be encoded");
  return der;
}

}  // namespace

proxy::PemPair read_authority(const Settings& settings) {
  return {os::read_file(settings.egress_ca_cert_file, max_pem_bytes),
          os::read_file(settings.egress_ca_key_file, max_pem_bytes)};
}

std::shared_ptr<const proxy::CertificateAuthority> load_authority(const Settings& settings,
                                                                  const proxy::PemPair& pair) {
  auto authority = proxy::CertificateAuthority::load(pair, std::chrono::system_clock::now());
  if (!authority)
    throw std::runtime_error(
        fmt::format("egress CA {} with {}: {} (daiv-sandbox ca init makes a pair)",
                    settings.egress_ca_cert_file, settings.egress_ca_key_file, authority.error()));
  return std::make_shared<const proxy::CertificateAuthority>(std::move(*authority));
}

std::vector<std::string> find_authority_remarks(const proxy::CertificateAuthority& authority) {
  std::vector<std::string> remarks;
  if (!authority.weaknesses().empty())
    remarks.push_back(fmt::format(
        "strict clients refuse the egress CA: {}; sandboxes get the same key with a certificate "
        "that passes (daiv-sandbox ca repair writes it to the file)",
        fmt::join(authority.weaknesses(), ", ")));
  const auto left = authority.expires() - std::chrono::system_clock::now();
  if (left < expiry_notice)
    remarks.push_back(fmt::format("the egress CA expires in {} days: make a new one",
                                  std::chrono::duration_cast<std::chrono::days>(left).count()));
  return remarks;
}

agent::Trust plan_trust(const proxy::CertificateAuthority& authority,
                        std::string_view public_roots) {
  std::string certificate = authority.trusted_pem();
  if (certificate.empty() || certificate.back() != '\n') certificate += '\n';
  const Certificate parsed = read_back(certificate);
  return {std::move(certificate), subject_hash(parsed), encode_der(parsed), public_roots};
}

std::string read_public_roots() {
  for (const char* path : bundles) {
    try {
      return os::read_file(path, max_bundle_bytes);
    } catch (const os::Error&) {  // the next layout
      continue;
    }
  }
  return {};
}

}  // namespace daiv::cli
