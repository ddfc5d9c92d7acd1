#include "images/unpack/tar_reader.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <exception>
#include <new>
#include <string_view>

#include "images/unpack/unpack_error.hpp"

namespace daiv::images::unpack {

namespace {

struct FreeArchive {
  void operator()(archive* handle) const noexcept { archive_read_free(handle); }
};

std::string text_or_empty(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

EntryType type_of(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) return EntryType::hard_link;
  switch (archive_entry_filetype(entry)) {
    case AE_IFDIR:
      return EntryType::directory;
    case AE_IFLNK:
      return EntryType::symlink;
    case AE_IFIFO:
      return EntryType::fifo;
    case AE_IFCHR:
    case AE_IFBLK:
      return EntryType::device;
    case AE_IFSOCK:
      return EntryType::socket;
    default:
      return EntryType::file;
  }
}

void read_xattrs(archive_entry* entry, TarEntry& out) {
  if (archive_entry_xattr_reset(entry) == 0) return;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
    out.xattrs.emplace_back(text_or_empty(name),
                            std::string(static_cast<const char*>(value), size));
  }
}

void read_entry(archive_entry* entry, TarEntry& out) {
  out = TarEntry{};
  out.path = text_or_empty(archive_entry_pathname(entry));
  out.type = type_of(entry);
  if (out.type == EntryType::hard_link) out.link = text_or_empty(archive_entry_hardlink(entry));
  if (out.type == EntryType::symlink) out.link = text_or_empty(archive_entry_symlink(entry));
  out.mode = archive_entry_perm(entry);
  out.uid = archive_entry_uid(entry);
  out.gid = archive_entry_gid(entry);
  out.mtime = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
  out.size = static_cast<std::uint64_t>(archive_entry_size(entry));
  read_xattrs(entry, out);
}

}  // namespace

struct TarReader::Archive {
  explicit Archive(BlockRing& blocks) : ring(blocks), handle(archive_read_new()) {
    if (!handle) throw std::bad_alloc();
    archive_read_support_format_tar(handle.get());
  }

  // libarchive's callback: no exception may pass through it.
  static la_ssize_t read(archive* handle, void* self, const void** bytes) noexcept {
    auto& reader = *static_cast<Archive*>(self);
    try {
      const auto block = reader.ring.next_block(BlockRing::Reader::writer);
      *bytes = block.data();
      return static_cast<la_ssize_t>(block.size());
    } catch (...) {
      reader.failure = std::current_exception();
      archive_set_error(handle, EIO, "no more input");
      return ARCHIVE_FATAL;
    }
  }

  // Throws what happened: the ring's failure before what libarchive made of it.
  [[noreturn]] void fail() const {
    if (failure) std::rethrow_exception(failure);
    throw UnpackError(Status::corrupt, fmt::format("the tar is damaged: {}", message()));
  }

  // Whether a warning tells of nothing but names in no known encoding: they are taken as bytes.
  [[nodiscard]] bool is_about_encoding() const {
    return message().find("can't be converted from") != std::string::npos;
  }

  [[nodiscard]] std::string message() const {
    const std::string text = text_or_empty(archive_error_string(handle.get()));
    return text.empty() ? "no reason given" : text;
  }

  BlockRing& ring;
  std::unique_ptr<archive, FreeArchive> handle;
  bool opened = false;
  TarEntry entry;
  std::exception_ptr failure;
};

TarReader::TarReader(BlockRing& ring) : archive_(std::make_unique<Archive>(ring)) {}

TarReader::~TarReader() = default;

const TarEntry* TarReader::next_entry() {
  archive* handle = archive_->handle.get();
  if (!archive_->opened) {
    if (archive_read_open(handle, archive_.get(), nullptr, &Archive::read, nullptr) != ARCHIVE_OK)
      archive_->fail();
    archive_->opened = true;
  }
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(handle, &entry);
  if (result == ARCHIVE_EOF) {
    if (archive_->failure) archive_->fail();
    return nullptr;
  }
  if (result != ARCHIVE_OK && !(result == ARCHIVE_WARN && archive_->is_about_encoding()))
    archive_->fail();
  read_entry(entry, archive_->entry);
  return &archive_->entry;
}

std::optional<DataBlock> TarReader::next_block() {
  const void* bytes = nullptr;
  std::size_t size = 0;
  la_int64_t offset = 0;
  const int result = archive_read_data_block(archive_->handle.get(), &bytes, &size, &offset);
  if (result == ARCHIVE_EOF) return std::nullopt;
  if (result != ARCHIVE_OK) archive_->fail();
  return DataBlock{std::span(static_cast<const std::byte*>(bytes), size),
                   static_cast<std::uint64_t>(offset)};
}

void TarReader::drain() {
  while (!archive_->ring.next_block(BlockRing::Reader::writer).empty()) {
  }
}

}  // namespace daiv::images::unpack
