#include "agent/seed_unpack.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <cerrno>
#include <new>
#include <utility>

namespace daiv::agent {

void refuse_archive(std::string_view reason) {
  throw SeedError(SeedOutcome::invalid_archive,
                  fmt::format("Invalid or truncated archive: {}", reason));
}

ArchiveReader::ArchiveReader(ByteSource source)
    : source_(std::move(source)), archive_(::archive_read_new(), ::archive_read_free) {
  if (!archive_) throw std::bad_alloc();
}

void ArchiveReader::open() {
  check(::archive_read_open(archive_.get(), this, nullptr, read, nullptr));
}

ssize_t ArchiveReader::read(archive* /*reader*/, void* self, const void** block) {
  auto& reader = *static_cast<ArchiveReader*>(self);
  try {
    const auto bytes = reader.source_();
    reader.note(bytes);
    *block = bytes.data();
    return static_cast<ssize_t>(bytes.size());
  } catch (...) {  // no exception crosses libarchive: it goes on after the call, in check()
    reader.failure_ = std::current_exception();
    return -1;
  }
}

void ArchiveReader::check(int result) const {
  if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return;
  if (failure_) std::rethrow_exception(failure_);
  const char* const text = ::archive_error_string(archive_.get());
  if (::archive_errno(archive_.get()) == ENOMEM)
    refuse_archive("too much memory is needed to decompress it");
  refuse_archive(text != nullptr ? text : "unreadable");
}

void ArchiveReader::drain() {
  for (auto bytes = source_(); !bytes.empty(); bytes = source_()) note(bytes);
}

void ArchiveReader::note(std::string_view bytes) noexcept {
  const auto last = bytes.find_last_not_of('\0');
  if (last != std::string_view::npos)
    end_of_content_ = position_ + static_cast<std::int64_t>(last) + 1;
  position_ += static_cast<std::int64_t>(bytes.size());
}

void Unpacker::open() {
  archive* const reader = reader_.get();
  ::archive_read_support_filter_gzip(reader);
  ::archive_read_support_filter_bzip2(reader);
  ::archive_read_support_filter_xz(reader);
  ::archive_read_support_filter_zstd(reader);
  ::archive_read_support_format_raw(reader);
  reader_.open();
  archive_entry* whole = nullptr;
  reader_.check(::archive_read_next_header(reader, &whole));
}

std::string_view Unpacker::next() {
  if (!std::exchange(opened_, true)) open();
  const void* block = nullptr;
  std::size_t size = 0;
  la_int64_t offset = 0;
  const int result = ::archive_read_data_block(reader_.get(), &block, &size, &offset);
  if (result == ARCHIVE_EOF) return {};
  reader_.check(result);
  return {static_cast<const char*>(block), size};
}

void Unpacker::finish() {
  while (!next().empty()) {
  }
  reader_.drain();
  if (reader_.end_of_content() > ::archive_filter_bytes(reader_.get(), -1))
    refuse_archive("trailing data");
}

}  // namespace daiv::agent
