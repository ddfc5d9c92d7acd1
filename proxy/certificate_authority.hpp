#pragma once

#include <chrono>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/host_name.hpp"

namespace daiv::proxy {

using Time = std::chrono::system_clock::time_point;

// A certificate and its private key, both in PEM.
struct PemPair {
  std::string certificate;
  std::string key;
};

// What the proxy shows a client in place of an origin's own certificate.
class Leaf {
public:
  struct Impl;  // X509 and EVP_PKEY, for the sources that hand them to TLS
  explicit Leaf(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] const Impl& impl() const noexcept { return *impl_; }
  [[nodiscard]] Time expires() const;
  [[nodiscard]] std::string certificate_pem() const;

private:
  // Shared by the cache and the connections that are using it.
  std::shared_ptr<const Impl> impl_;
};

// The operator's CA. Its key stays in this object. Immutable, so thread-safe.
class CertificateAuthority {
public:
  // Reads and checks a pair: one certificate that is a CA, is valid now, and belongs to the key
  // (RSA, EC or Ed25519, unencrypted). The error is for an operator and names neither bytes nor
  // paths.
  static std::expected<CertificateAuthority, std::string> load(const PemPair& pair, Time now);

  // What strict clients (Python 3.13's default, OpenSSL -x509_strict) would refuse the operator's
  // certificate for, such as "it has no keyUsage"; empty when nothing.
  [[nodiscard]] const std::vector<std::string>& weaknesses() const noexcept { return weaknesses_; }

  // What is installed into sandboxes: the operator's certificate, or, where it is weak, one that is
  // issued again for the same key, name and time, with what was missing.
  [[nodiscard]] const std::string& trusted_pem() const noexcept { return trusted_pem_; }

  [[nodiscard]] Time expires() const noexcept { return expires_; }

  // Signs a certificate for `host`: P-256 key, one SAN, serverAuth, valid from two days before
  // `now` for 190 days at the most and no longer than the CA. Costs up to 10 ms with an RSA-4096
  // CA: call it on the pool. Throws std::runtime_error.
  [[nodiscard]] Leaf issue(const HostName& host, Time now) const;

private:
  struct Impl;
  explicit CertificateAuthority(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;  // shared by copies: all of it is constant
  std::vector<std::string> weaknesses_;
  std::string trusted_pem_;
  Time expires_;
};

// A new CA with an EC P-256 key, as strict clients want it. Throws std::runtime_error.
PemPair create_ca(std::string_view common_name, Time now, std::chrono::days lifetime);

}  // namespace daiv::proxy
