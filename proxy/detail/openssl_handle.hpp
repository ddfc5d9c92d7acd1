#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

// OpenSSL's objects with their owners, for the sources of this folder.
namespace daiv::proxy {

template <auto Free>
struct FreeWith {
  template <typename Object>
  void operator()(Object* object) const noexcept {
    Free(object);
  }
};

using BioPtr = std::unique_ptr<BIO, FreeWith<::BIO_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<::EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, FreeWith<::X509_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, FreeWith<::X509_EXTENSION_free>>;

// The newest error in this thread's queue, which is emptied; "unknown error" where there is none.
std::string take_openssl_error();

// Throws std::runtime_error "CALL: ERROR" unless `ok`.
void require(bool ok, std::string_view call);

}  // namespace daiv::proxy
