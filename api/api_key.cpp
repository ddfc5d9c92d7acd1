#include "api/api_key.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>

#include "api/failure.hpp"

namespace daiv::api {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest digest(std::string_view text) {
  Digest out{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

}  // namespace

KeyVerdict check_api_key(const RequestHead& head, std::string_view key) {
  const std::string_view given = head.find("X-API-Key").value_or("");
  if (given.empty()) return KeyVerdict::missing;
  // Digests have one length, so that not even the length of the key shows in the time.
  const Digest left = digest(given);
  const Digest right = digest(key);
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0 ? KeyVerdict::right
                                                                    : KeyVerdict::wrong;
}

void require_key(KeyVerdict verdict) {
  if (verdict == KeyVerdict::missing) throw HttpFailure(403, "API Key header is missing");
  if (verdict == KeyVerdict::wrong) throw HttpFailure(403, "Invalid API Key");
}

}  // namespace daiv::api
