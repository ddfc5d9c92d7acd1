#pragma once

#include <openssl/ssl.h>

#include <memory>

#include "proxy/detail/openssl_handle.hpp"

namespace daiv::proxy {

using SslPtr = std::unique_ptr<SSL, FreeWith<::SSL_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, FreeWith<::SSL_CTX_free>>;
using TlsSessionPtr = std::unique_ptr<SSL_SESSION, FreeWith<::SSL_SESSION_free>>;
using StorePtr = std::unique_ptr<X509_STORE, FreeWith<::X509_STORE_free>>;

}  // namespace daiv::proxy
