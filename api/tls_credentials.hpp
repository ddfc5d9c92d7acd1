#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/settings.hpp"

struct ssl_ctx_st;  // SSL_CTX of OpenSSL

namespace daiv::api {

// What TLS connections begin with: OpenSSL's context.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

// The certificate chain and private key of the API, read from their files (PEM) with the rights of
// this process, and again when these change. TLS 1.2 and later, ALPN http/1.1. Thread-safe.
class TlsCredentials {
public:
  // Throws std::runtime_error that names the file and says what is wrong with it.
  explicit TlsCredentials(TlsFiles files);

  // For the next connection; those that are open keep what they began with.
  [[nodiscard]] TlsContext current() const;

  enum class Poll { unchanged, unsettled, reloaded, kept };
  // Looks at the files, and blocks for that. New ones are loaded when two looks in a row found the
  // same, so that a pair that is being replaced is not read half. A pair that can't be used is
  // logged, once, and the old one stays (kept).
  Poll poll();

private:
  // What tells one version of the files from another: device, inode, size, times of both.
  struct Version {
    std::string text;
    bool operator==(const Version&) const = default;
  };
  static std::optional<Version> find_version(const TlsFiles& files);

  const TlsFiles files_;
  std::optional<Version> loaded_;  // the last that was tried
  std::optional<Version> seen_;    // at the last poll
  mutable std::mutex mutex_;       // guards context_; poll() has one caller at a time
  TlsContext context_;
};

}  // namespace daiv::api
