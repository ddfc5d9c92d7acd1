#pragma once

#include <sys/types.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "agent/protocol.hpp"

struct archive;  // libarchive's

// The first half of an extraction: from the bytes of an archive to those of the tar in it.
namespace daiv::agent {

// Why a seed is refused.
class SeedError : public std::exception {
public:
  SeedError(SeedOutcome outcome, std::string message)
      : outcome_(outcome), message_(std::move(message)) {}
  [[nodiscard]] SeedOutcome outcome() const noexcept { return outcome_; }
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

private:
  SeedOutcome outcome_;
  std::string message_;
};

// Refuses an archive that can't be read.
[[noreturn]] void refuse_archive(std::string_view reason);

// The next bytes of something, valid until the next call; empty at its end. May throw.
using ByteSource = std::function<std::string_view()>;

// One reader of libarchive with the source that it reads.
class ArchiveReader {
public:
  explicit ArchiveReader(ByteSource source);
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // After what is supported was said.
  void open();
  // Throws where `result` is an error: what the source threw, or SeedError. Whatever is not
  // entirely right refuses the archive, as half a tree is worse than none.
  void check(int result) const;
  // Reads what libarchive has not asked for.
  void drain();

  [[nodiscard]] archive* get() const noexcept { return archive_.get(); }
  // How many bytes were read of the source, and where the last one that is not zero ends.
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }
  [[nodiscard]] std::int64_t end_of_content() const noexcept { return end_of_content_; }

private:
  static ssize_t read(archive* reader, void* self, const void** block);
  void note(std::string_view bytes) noexcept;

  ByteSource source_;
  std::exception_ptr failure_;
  std::int64_t position_ = 0;
  std::int64_t end_of_content_ = 0;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

// Decompresses gzip, bzip2, xz and zstd, told by the content; anything else is taken as it is.
class Unpacker {
public:
  explicit Unpacker(ByteSource source) : reader_(std::move(source)) {}

  // A ByteSource. Throws SeedError and what the source throws.
  std::string_view next();
  // Reads the rest of the source; what follows the compressed data and is not zero refuses it.
  void finish();

private:
  void open();

  ArchiveReader reader_;
  bool opened_ = false;
};

}  // namespace daiv::agent
