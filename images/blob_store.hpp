#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "images/digest.hpp"
#include "images/image_service.hpp"
#include "images/registry_client.hpp"
#include "os/unique_fd.hpp"

namespace daiv::images {

// Blobs as registries gave them, by digest: <dir>/sha256/<hex>. A file of that name is whole: it is
// written under another name, synced and renamed. With BlobRetention::drop nothing is written, and
// what is there is still used. Thread-safe. Throws os::Error.
class BlobStore {
public:
  BlobStore(std::string dir, BlobRetention retention);

  [[nodiscard]] bool keeps() const noexcept { return retention_ == BlobRetention::keep; }
  // The blob, open for reading; empty where it is not here.
  [[nodiscard]] std::optional<os::UniqueFd> find(const Digest& digest) const;
  // Streams a blob that is here and verifies it; what does not match is removed and is
  // ImageError{internal}.
  void stream(const Digest& digest, const os::UniqueFd& blob, BlobSink& sink,
              const std::stop_token& stop) const;
  // Keeps a small blob whose digest was verified; nothing with BlobRetention::drop.
  void add(const Digest& digest, std::string_view bytes) const;

  // Writes through to another sink and keeps a copy. Without commit() nothing is kept.
  class Tee final : public BlobSink {
  public:
    Tee(const BlobStore& store, BlobSink& next);
    ~Tee() override;
    Tee(const Tee&) = delete;
    Tee& operator=(const Tee&) = delete;
    void write(std::span<const std::byte> bytes) override;
    // Call it when the digest is verified.
    void commit(const Digest& digest);

  private:
    const BlobStore& store_;
    BlobSink& next_;
    std::string temporary_;
    os::UniqueFd file_;
  };

private:
  [[nodiscard]] std::string path_of(const Digest& digest) const;

  std::string dir_;
  BlobRetention retention_;
};

}  // namespace daiv::images
