#include "agent/pkcs12_seal.hpp"

#include <nettle/hmac.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>

#include <array>

#include "agent/der.hpp"
#include "wire/codec.hpp"

namespace daiv::agent {
namespace {

using namespace std::string_view_literals;

constexpr auto id_sha1 = "\x2b\x0e\x03\x02\x1a"sv;
constexpr auto id_sha256 = "\x60\x86\x48\x01\x65\x03\x04\x02\x01"sv;
// JDK writes 10,000 (100,000 before 16), OpenSSL 2,048.
constexpr std::uint32_t max_rounds = 200'000;
constexpr std::size_t max_salt_bytes = 1024;
constexpr std::size_t block_bytes = 64;  // of both digests
constexpr char mac_key_id = 3;           // appendix B.3

const std::uint8_t* octets(std::string_view bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

// Appendix B.2: as often as it takes to fill whole blocks.
std::string fill_blocks(std::string_view bytes) {
  std::string filled;
  if (bytes.empty()) return filled;
  const std::size_t size = (bytes.size() + block_bytes - 1) / block_bytes * block_bytes;
  while (filled.size() < size) filled.append(bytes);
  filled.resize(size);
  return filled;
}

// Appendix B.1: UTF-16, big-endian, with a final zero.
std::string password_bytes() {
  std::string bytes;
  for (const char letter : java_password) bytes.append({'\0', letter});
  return bytes.append(2, '\0');
}

template <typename Context>
std::string hash_with(void init(Context*), void update(Context*, std::size_t, const std::uint8_t*),
                      void finish(Context*, std::size_t, std::uint8_t*), std::size_t size,
                      std::string_view bytes) {
  Context context{};
  init(&context);
  update(&context, bytes.size(), octets(bytes));
  std::string digest(size, '\0');
  finish(&context, size, reinterpret_cast<std::uint8_t*>(digest.data()));
  return digest;
}

template <typename Context>
std::string hmac_with(void set_key(Context*, std::size_t, const std::uint8_t*),
                      void update(Context*, std::size_t, const std::uint8_t*),
                      void finish(Context*, std::size_t, std::uint8_t*), std::size_t size,
                      std::string_view key, std::string_view bytes) {
  Context context{};
  set_key(&context, key.size(), octets(key));
  update(&context, bytes.size(), octets(bytes));
  std::string digest(size, '\0');
  finish(&context, size, reinterpret_cast<std::uint8_t*>(digest.data()));
  return digest;
}

}  // namespace

std::string Pkcs12Seal::hash(std::string_view bytes) const {
  if (digest_ == Digest::sha256)
    return hash_with<sha256_ctx>(sha256_init, sha256_update, sha256_digest, SHA256_DIGEST_SIZE,
                                 bytes);
  return hash_with<sha1_ctx>(sha1_init, sha1_update, sha1_digest, SHA1_DIGEST_SIZE, bytes);
}

std::string Pkcs12Seal::authenticate(std::string_view content) const {
  if (digest_ == Digest::sha256)
    return hmac_with<hmac_sha256_ctx>(hmac_sha256_set_key, hmac_sha256_update, hmac_sha256_digest,
                                      SHA256_DIGEST_SIZE, key_, content);
  return hmac_with<hmac_sha1_ctx>(hmac_sha1_set_key, hmac_sha1_update, hmac_sha1_digest,
                                  SHA1_DIGEST_SIZE, key_, content);
}

// Appendix B.2, where the key is as long as the digest: the first block of output is all of it.
std::string Pkcs12Seal::derive_key(std::string_view salt, std::uint32_t rounds) const {
  std::string bytes =
      std::string(block_bytes, mac_key_id) + fill_blocks(salt) + fill_blocks(password_bytes());
  for (std::uint32_t round = 0; round < rounds; ++round) bytes = hash(bytes);
  return bytes;
}

std::expected<Pkcs12Seal, StoreProblem> Pkcs12Seal::open(std::string_view mac_data,
                                                         std::string_view content) {
  DerReader outer(mac_data);
  DerReader mac = outer.enter(der_tag::sequence);
  DerReader info = mac.enter(der_tag::sequence);
  const DerValue algorithm = info.next();
  const std::string_view expected = info.next(der_tag::octets);
  Pkcs12Seal seal;
  seal.algorithm_ = algorithm.whole;
  const std::string_view name = DerReader(algorithm.content).next(der_tag::object_id);
  if (name != id_sha1 && name != id_sha256) return std::unexpected(StoreProblem::unknown_format);
  seal.digest_ = name == id_sha1 ? Digest::sha1 : Digest::sha256;
  const DerValue salt = mac.next();
  seal.rest_ = salt.whole;
  std::uint32_t rounds = 1;  // RFC 7292, MacData: the default
  if (!mac.at_end()) {
    DerReader peek = mac;
    seal.rest_.append(peek.next().whole);
    rounds = mac.next_integer();
  }
  mac.finish();
  if (rounds == 0 || rounds > max_rounds || salt.content.size() > max_salt_bytes)
    return std::unexpected(StoreProblem::unknown_format);
  seal.key_ = seal.derive_key(salt.content, rounds);
  if (seal.authenticate(content) != expected) return std::unexpected(StoreProblem::other_password);
  return seal;
}

std::string Pkcs12Seal::make(std::string_view content) const {
  const std::string info =
      der_value(der_tag::sequence, algorithm_ + der_value(der_tag::octets, authenticate(content)));
  return der_value(der_tag::sequence, info + rest_);
}

}  // namespace daiv::agent
