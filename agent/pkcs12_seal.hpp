#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "agent/java_store.hpp"

namespace daiv::agent {

// The seal of a PKCS #12 store with java_password: MacData of RFC 7292, an HMAC under a key that
// its appendix B derives from the password. With SHA-1 (JDK up to 15) or SHA-256 (from 16 on).
class Pkcs12Seal {
public:
  // Takes the seal `mac_data` (DER) of `content`, after checking that it is one of java_password.
  // Another digest, and more rounds than anyone uses, are unknown formats. Throws wire::DecodeError
  // where it is malformed.
  static std::expected<Pkcs12Seal, StoreProblem> open(std::string_view mac_data,
                                                      std::string_view content);

  // MacData of other content, with the same digest, salt and rounds.
  [[nodiscard]] std::string make(std::string_view content) const;

private:
  enum class Digest { sha1, sha256 };

  [[nodiscard]] std::string derive_key(std::string_view salt, std::uint32_t rounds) const;
  [[nodiscard]] std::string authenticate(std::string_view content) const;
  [[nodiscard]] std::string hash(std::string_view bytes) const;

  Digest digest_ = Digest::sha1;
  std::string algorithm_;  // AlgorithmIdentifier
  std::string rest_;       // what follows DigestInfo: salt and rounds
  std::string key_;
};

}  // namespace daiv::agent
