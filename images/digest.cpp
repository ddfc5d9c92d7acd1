#include "images/digest.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "os/error.hpp"

namespace daiv::images {
namespace {

struct Algorithm {
  DigestAlgorithm value;
  std::string_view prefix;
  std::size_t hex_digits;
};

constexpr std::array algorithms = {
    Algorithm{DigestAlgorithm::sha256, "sha256:", 64},
    Algorithm{DigestAlgorithm::sha384, "sha384:", 96},
    Algorithm{DigestAlgorithm::sha512, "sha512:", 128},
};

const Algorithm& find_algorithm(DigestAlgorithm value) {
  return *std::ranges::find(algorithms, value, &Algorithm::value);
}

const EVP_MD* evp_of(DigestAlgorithm algorithm) {
  switch (algorithm) {
    case DigestAlgorithm::sha256:
      return EVP_sha256();
    case DigestAlgorithm::sha384:
      return EVP_sha384();
    case DigestAlgorithm::sha512:
      return EVP_sha512();
  }
  return nullptr;
}

bool is_lower_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

void require(int result, std::string_view call) {
  // OpenSSL sets no errno; the only way these fail is memory or a provider that forbids the
  // algorithm.
  if (result != 1) throw os::Error(ENOTSUP, call, "message digest");
}

struct ContextFree {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_MD_CTX, ContextFree>;

ContextPtr make_context() {
  ContextPtr context(EVP_MD_CTX_new());
  if (!context) throw os::Error(ENOMEM, "EVP_MD_CTX_new", "message digest");
  return context;
}

}  // namespace

std::expected<Digest, ParseError> Digest::parse(std::string_view text) {
  const auto algorithm = std::ranges::find_if(
      algorithms, [&](const Algorithm& candidate) { return text.starts_with(candidate.prefix); });
  if (algorithm == algorithms.end()) {
    return std::unexpected(ParseError{"unsupported digest algorithm"});
  }
  const auto hex = text.substr(algorithm->prefix.size());
  if (hex.size() != algorithm->hex_digits) {
    return std::unexpected(ParseError{"invalid digest length"});
  }
  if (!std::ranges::all_of(hex, is_lower_hex)) {
    return std::unexpected(ParseError{"invalid digest: not lower-case hexadecimal"});
  }
  return Digest(algorithm->value, std::string(text));
}

Digest Digest::of(std::string_view bytes) {
  DigestStream stream;
  stream.update(bytes);
  return stream.current();
}

std::string_view Digest::hex() const noexcept {
  return std::string_view(text_).substr(text_.find(':') + 1);
}

struct DigestStream::Context {
  ContextPtr evp = make_context();
};

DigestStream::DigestStream(DigestAlgorithm algorithm)
    : context_(std::make_unique<Context>()), algorithm_(algorithm) {
  require(EVP_DigestInit_ex(context_->evp.get(), evp_of(algorithm), nullptr), "EVP_DigestInit_ex");
}

DigestStream::DigestStream(DigestStream&&) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&&) noexcept = default;
DigestStream::~DigestStream() = default;

void DigestStream::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->evp.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
  size_ += bytes.size();
}

void DigestStream::update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }

Digest DigestStream::current() const {
  // The final step destroys the state, and the caller may go on: it is done on a copy.
  const auto copy = make_context();
  require(EVP_MD_CTX_copy_ex(copy.get(), context_->evp.get()), "EVP_MD_CTX_copy_ex");
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int length = 0;
  require(EVP_DigestFinal_ex(copy.get(), raw.data(), &length), "EVP_DigestFinal_ex");

  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(find_algorithm(algorithm_).prefix);
  for (const unsigned char byte : std::span(raw).first(length)) {
    text += digits[byte >> 4U];
    text += digits[byte & 0xFU];
  }
  return Digest(algorithm_, std::move(text));
}

}  // namespace daiv::images
