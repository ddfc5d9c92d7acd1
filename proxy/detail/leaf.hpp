#pragma once

#include "proxy/certificate_authority.hpp"
#include "proxy/detail/openssl_handle.hpp"

namespace daiv::proxy {

// The inside of a Leaf, for what hands it to TLS.
struct Leaf::Impl {
  CertificatePtr certificate;
  KeyPtr key;
  Time expires;
};

}  // namespace daiv::proxy
