#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "images/digest.hpp"
#include "images/http_transfer.hpp"
#include "images/manifest.hpp"

namespace daiv::images {

// Turns any number of broken, resumed and restarted responses into one stream of a blob's bytes,
// each once and in order. Knows no network: it is told what came and says what to ask for next (RFC
// 9110 §14, range requests).
class BlobResume {
public:
  static constexpr int max_restarts = 3;  // responses that begin at zero although a part was there

  explicit BlobResume(const Descriptor& blob);

  // How many bytes were given out, and where the next request has to begin; 0: ask without Range.
  [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_.size(); }
  [[nodiscard]] std::uint64_t next_offset() const noexcept;
  [[nodiscard]] bool is_whole() const noexcept { return delivered() == size_; }

  enum class Verdict {
    take,      // feed the body to accept()
    ask_anew,  // of no use; ask again as next_offset() now says
    refuse,    // give up, reason() says why
  };
  // Judges a response with status 2xx or 416 to the request for next_offset().
  Verdict on_head(const HttpHead& head);

  // Takes a piece of the body; returns the part of it that is new. Empty optional: give up,
  // reason() says why. A response that begins at zero again is hashed up to where the last one
  // broke: the same bytes, or none at all.
  std::optional<std::span<const std::byte>> accept(std::span<const std::byte> bytes);

  // Whether what was given out is the blob. Call when is_whole().
  [[nodiscard]] bool verify() const { return delivered_.current() == digest_; }
  enum class Fault { none, corrupt, not_resumable };
  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

private:
  Verdict restart();
  Verdict refuse(Fault fault, std::string reason);
  [[nodiscard]] bool continues(const HttpHead& head) const;

  Digest digest_;
  std::uint64_t size_;
  DigestStream delivered_;
  std::optional<DigestStream> repeated_;  // the prefix of a response that began at zero
  std::string etag_;
  bool ask_whole_ = false;
  int restarts_ = 0;
  int range_refusals_ = 0;
  Fault fault_ = Fault::none;
  std::string reason_;
};

}  // namespace daiv::images
