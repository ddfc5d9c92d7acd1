#include "api/tls_credentials.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <string_view>

#include "os/error.hpp"

namespace daiv::api {
namespace {

// RFC 7301, section 3.1: length and name.
constexpr std::string_view http_1_1 = "\x08http/1.1";

std::string describe_openssl() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_peek_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

[[noreturn]] void refuse(std::string_view what, const std::string& path,
                         const std::string& reason) {
  throw std::runtime_error(fmt::format(
      "{} {}: {} (it must be readable for the user that the daemon runs as)", what, path, reason));
}

// A FIFO or a device would be read for ever.
void require_file(std::string_view what, const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) refuse(what, path, os::describe_errno(errno));
  if (!S_ISREG(status.st_mode)) refuse(what, path, "not a regular file");
}

// A key with a passphrase would be asked for on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  const auto* ours = reinterpret_cast<const unsigned char*>(http_1_1.data());
  unsigned char* found = nullptr;
  const int verdict =
      SSL_select_next_proto(&found, chosen_size, ours, http_1_1.size(), offered, offered_size);
  *chosen = found;
  // RFC 7301, section 3.2: no_application_protocol where nothing is in common.
  return verdict == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

TlsContext load(const TlsFiles& files) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1)
    throw std::runtime_error("TLS: " + describe_openssl());
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);  // idle connections stay small
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context.get(), no_passphrase);
  require_file("TLS certificate", files.certificate);
  require_file("TLS key", files.key);
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    refuse("TLS certificate", files.certificate, describe_openssl());
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1)
    refuse("TLS key", files.key, describe_openssl());
  return context;
}

}  // namespace

TlsCredentials::TlsCredentials(TlsFiles files)
    : files_(std::move(files)),
      loaded_(find_version(files_)),
      seen_(loaded_),
      context_(load(files_)) {}

TlsContext TlsCredentials::current() const {
  const std::scoped_lock lock(mutex_);
  return context_;
}

// stat(2) follows links, so that a link that is turned to another file is a change as well.
std::optional<TlsCredentials::Version> TlsCredentials::find_version(const TlsFiles& files) {
  Version version;
  for (const std::string* path : {&files.certificate, &files.key}) {
    struct stat status{};
    if (::stat(path->c_str(), &status) != 0) return std::nullopt;
    version.text += fmt::format("{}:{}:{}:{}.{}:{}.{} ", status.st_dev, status.st_ino,
                                status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                                status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
  }
  return version;
}

TlsCredentials::Poll TlsCredentials::poll() {
  const std::optional<Version> before = seen_;
  seen_ = find_version(files_);
  if (seen_ == loaded_) return Poll::unchanged;
  if (seen_ != before) return Poll::unsettled;
  loaded_ = seen_;
  try {
    TlsContext fresh = load(files_);
    const std::scoped_lock lock(mutex_);
    context_ = std::move(fresh);
  } catch (const std::runtime_error& error) {
    spdlog::error("event=tls_reload_failed error=\"{}\" the former certificate stays in use",
                  error.what());
    return Poll::kept;
  }
  spdlog::info("event=tls_reloaded certificate={}", files_.certificate);
  return Poll::reloaded;
}

}  // namespace daiv::api
