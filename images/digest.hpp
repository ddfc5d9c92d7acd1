#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace daiv::images {

// Why bytes from outside are not what they should be; lower case, no full stop, fit to be shown to
// a client.
struct ParseError {
  std::string text;
};

enum class DigestAlgorithm : std::uint8_t { sha256, sha384, sha512 };

// The digest of some bytes as OCI writes it, "sha256:<64 lower-case hex digits>" (OCI image spec,
// descriptor.md). Always valid: it comes out of parse() or a DigestStream.
class Digest {
public:
  // Accepts the registered algorithms in lower case with exactly as many lower-case hex digits as
  // they need.
  static std::expected<Digest, ParseError> parse(std::string_view text);
  // The SHA-256 of `bytes`.
  static Digest of(std::string_view bytes);

  [[nodiscard]] const std::string& string() const noexcept { return text_; }
  [[nodiscard]] std::string_view hex() const noexcept;
  [[nodiscard]] DigestAlgorithm algorithm() const noexcept { return algorithm_; }

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;

private:
  friend class DigestStream;
  Digest(DigestAlgorithm algorithm, std::string text)
      : algorithm_(algorithm), text_(std::move(text)) {}

  DigestAlgorithm algorithm_;
  std::string text_;
};

// Hashes bytes as they come by (OpenSSL EVP_DigestUpdate(3)). One thread at a time.
class DigestStream {
public:
  // Throws os::Error where OpenSSL refuses.
  explicit DigestStream(DigestAlgorithm algorithm = DigestAlgorithm::sha256);
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;
  ~DigestStream();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes);

  // The digest of what came by so far; more may follow.
  [[nodiscard]] Digest current() const;
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

private:
  struct Context;
  std::unique_ptr<Context> context_;
  DigestAlgorithm algorithm_;
  std::uint64_t size_ = 0;
};

}  // namespace daiv::images

template <>
struct std::hash<daiv::images::Digest> {
  std::size_t operator()(const daiv::images::Digest& digest) const noexcept {
    return std::hash<std::string>{}(digest.string());
  }
};
