#include "agent/java_jks.hpp"

#include <nettle/sha1.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "wire/codec.hpp"

namespace daiv::agent {
namespace {

using wire::DecodeError;

constexpr std::uint32_t magic = 0xfeedfeed;
constexpr std::size_t magic_bytes = 4;
constexpr std::uint32_t private_key = 1;
constexpr std::uint32_t trusted_certificate = 2;
// Of JavaKeyStore.getPreKeyedHash(): it goes into the digest after the password.
constexpr std::string_view whitener = "Mighty Aphrodite";
constexpr std::string_view certificate_type = "X.509";

class JksReader {
public:
  explicit JksReader(std::string_view bytes) : all_(bytes) {}

  std::string_view take(std::size_t count) {
    if (count > all_.size() - position_) throw DecodeError("JKS ends early");
    const auto taken = all_.substr(position_, count);
    position_ += count;
    return taken;
  }
  std::uint32_t number(std::size_t bytes) {
    std::uint32_t value = 0;
    for (const char byte : take(bytes)) value = value << 8U | static_cast<std::uint8_t>(byte);
    return value;
  }
  std::string_view text() { return take(number(2)); }
  std::string_view block() { return take(number(4)); }
  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] bool at_end() const noexcept { return position_ == all_.size(); }

private:
  std::string_view all_;
  std::size_t position_ = 0;
};

struct Entry {
  std::string_view alias;
  std::string_view certificate;  // of a trusted one
  std::string_view whole;
};

// Version 1 has no types of certificates.
std::string_view read_certificate(JksReader& reader, std::uint32_t version) {
  if (version > 1) reader.text();
  return reader.block();
}

Entry read_entry(JksReader& reader, std::string_view store, std::uint32_t version) {
  const std::size_t begin = reader.position();
  const std::uint32_t kind = reader.number(4);
  Entry entry;
  entry.alias = reader.text();
  reader.take(8);  // when it was made
  if (kind == trusted_certificate) {
    entry.certificate = read_certificate(reader, version);
  } else if (kind == private_key) {
    reader.block();
    // A certificate takes some bytes, so that the loop ends with the store.
    for (std::uint32_t left = reader.number(4); left != 0; --left)
      read_certificate(reader, version);
  } else {
    throw DecodeError("JKS has an unknown entry");
  }
  entry.whole = store.substr(begin, reader.position() - begin);
  return entry;
}

std::string big_endian(std::uint64_t value, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t index = bytes; index-- > 0; value >>= 8U)
    text[index] = static_cast<char>(value & 0xffU);
  return text;
}

std::string make_entry(std::string_view certificate, std::uint32_t version) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  std::string entry = big_endian(trusted_certificate, 4);
  entry.append(big_endian(java_alias.size(), 2)).append(java_alias);
  entry.append(big_endian(static_cast<std::uint64_t>(now.count()), 8));
  if (version > 1) entry.append(big_endian(certificate_type.size(), 2)).append(certificate_type);
  return entry.append(big_endian(certificate.size(), 4)).append(certificate);
}

struct Entries {
  std::uint32_t version = 0;
  std::uint32_t others = 0;
  std::string bytes;      // of all but ours
  bool is_there = false;  // exactly our certificate
};

Entries read_entries(std::string_view body, std::string_view certificate) {
  JksReader reader(body);
  Entries entries;
  reader.take(magic_bytes);
  entries.version = reader.number(4);
  if (entries.version < 1 || entries.version > 2) throw DecodeError("JKS has an unknown version");
  for (std::uint32_t left = reader.number(4); left != 0; --left) {
    const Entry entry = read_entry(reader, body, entries.version);
    if (entry.alias == java_alias) {
      entries.is_there = entries.is_there || entry.certificate == certificate;
      continue;
    }
    ++entries.others;
    entries.bytes.append(entry.whole);
  }
  if (!reader.at_end()) throw DecodeError("JKS has bytes left");
  return entries;
}

}  // namespace

bool is_jks(std::string_view store) { return store.starts_with(big_endian(magic, magic_bytes)); }

std::string jks_seal(std::string_view entries) {
  std::string salt;
  for (const char letter : java_password) salt.append({'\0', letter});  // UTF-16, big-endian
  salt.append(whitener);
  sha1_ctx context{};
  sha1_init(&context);
  for (const std::string_view part : {std::string_view(salt), entries})
    sha1_update(&context, part.size(), reinterpret_cast<const std::uint8_t*>(part.data()));
  std::array<std::uint8_t, SHA1_DIGEST_SIZE> digest{};
  sha1_digest(&context, digest.size(), digest.data());
  return {digest.begin(), digest.end()};
}

std::expected<std::string, StoreProblem> jks_with_certificate(std::string_view store,
                                                              std::string_view certificate) {
  if (store.size() < SHA1_DIGEST_SIZE) throw DecodeError("JKS ends early");
  const std::string_view body = store.substr(0, store.size() - SHA1_DIGEST_SIZE);
  if (store.substr(body.size()) != jks_seal(body))
    return std::unexpected(StoreProblem::other_password);
  const Entries entries = read_entries(body, certificate);
  if (entries.is_there) return std::string(store);
  std::string made = big_endian(magic, magic_bytes) + big_endian(entries.version, 4) +
                     big_endian(entries.others + std::uint64_t{1}, 4) + entries.bytes +
                     make_entry(certificate, entries.version);
  return made + jks_seal(made);
}

}  // namespace daiv::agent
