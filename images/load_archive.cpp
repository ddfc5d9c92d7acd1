#include "images/load_archive.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "images/image_service.hpp"
#include "os/error.hpp"
#include "os/io.hpp"

namespace daiv::images {

namespace {

constexpr std::size_t read_block_bytes = std::size_t{1} << 20U;
constexpr int max_links = 8;

struct FreeArchive {
  void operator()(archive* handle) const noexcept { archive_read_free(handle); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

[[noreturn]] void throw_invalid(const std::string& text) {
  throw ImageError(ImageFailure::invalid_image, text);
}

[[noreturn]] void throw_archive_error(archive* handle) {
  const char* text = archive_error_string(handle);
  throw_invalid(fmt::format("the image archive cannot be read: {}",
                            text == nullptr ? "no reason given" : text));
}

// "a/b" of "./a//b/../b"; the names of an archive are keys here, never paths on a disk.
std::string normal(std::string_view path) {
  std::vector<std::string_view> kept;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    const std::string_view component = path.substr(0, end);
    if (component == ".." && !kept.empty()) kept.pop_back();
    if (!component.empty() && component != "." && component != "..") kept.push_back(component);
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
  }
  return fmt::format("{}", fmt::join(kept, "/"));
}

Archive open_archive(const os::UniqueFd& input) {
  Archive handle(archive_read_new());
  if (!handle) throw std::bad_alloc();
  archive_read_support_format_tar(handle.get());
  archive_read_support_filter_gzip(handle.get());
  archive_read_support_filter_bzip2(handle.get());
  archive_read_support_filter_xz(handle.get());
  archive_read_support_filter_zstd(handle.get());
  if (archive_read_open_fd(handle.get(), input.get(), read_block_bytes) != ARCHIVE_OK)
    throw_archive_error(handle.get());
  return handle;
}

LoadArchive::Member spool(archive* handle, const std::string& spool_dir,
                          const std::stop_token& stop) {
  LoadArchive::Member member;
  member.file = os::open_file(spool_dir, O_TMPFILE | O_RDWR, 0600);
  DigestStream hash;
  for (;;) {
    const void* bytes = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int result = archive_read_data_block(handle, &bytes, &size, &offset);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK) throw_archive_error(handle);
    if (stop.stop_requested()) throw ImageError(ImageFailure::cancelled, "cancelled");
    if (static_cast<std::uint64_t>(offset) != member.size)
      throw_invalid("the image archive has a sparse member");
    const std::string_view text(static_cast<const char*>(bytes), size);
    os::write_full(member.file, text);
    hash.update(text);
    member.size += size;
  }
  member.digest = hash.current();
  return member;
}

}  // namespace

LoadArchive::LoadArchive(const os::UniqueFd& input, const std::string& spool_dir,
                         const std::stop_token& stop) {
  const Archive handle = open_archive(input);
  archive_entry* entry = nullptr;
  for (std::size_t count = 0;; ++count) {
    const int result = archive_read_next_header(handle.get(), &entry);
    if (result == ARCHIVE_EOF) return;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) throw_archive_error(handle.get());
    if (count == max_archive_members) throw_invalid("the image archive has too many members");
    const char* raw = archive_entry_pathname(entry);
    const std::string path = normal(raw == nullptr ? "" : raw);
    const char* hard_link = archive_entry_hardlink(entry);
    const char* symlink = archive_entry_symlink(entry);
    if (hard_link != nullptr) {
      links_[path] = normal(hard_link);
    } else if (symlink != nullptr) {
      const std::size_t slash = path.rfind('/');
      const std::string parent = slash == std::string::npos ? "" : path.substr(0, slash);
      links_[path] = normal(parent + "/" + symlink);
    } else if (archive_entry_filetype(entry) == AE_IFREG) {
      members_[path] = spool(handle.get(), spool_dir, stop);
    }
  }
}

const LoadArchive::Member* LoadArchive::find(const std::string& path) const {
  std::string at = normal(path);
  for (int followed = 0; followed <= max_links; ++followed) {
    if (const auto member = members_.find(at); member != members_.end()) return &member->second;
    const auto link = links_.find(at);
    if (link == links_.end()) return nullptr;
    at = link->second;
  }
  return nullptr;
}

std::string LoadArchive::read(const std::string& path, std::size_t max_bytes) const {
  const Member* member = find(path);
  if (member == nullptr) throw_invalid(fmt::format("the image archive has no {}", path));
  if (member->size > max_bytes)
    throw_invalid(fmt::format("{} in the image archive is too large", path));
  std::string bytes(member->size, '\0');
  const auto count =
      os::check(::pread(member->file.get(), bytes.data(), bytes.size(), 0), "pread", path);
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

void stream_member(const LoadArchive::Member& member, BlobSink& sink, const std::stop_token& stop) {
  std::vector<std::byte> chunk(read_block_bytes);
  std::uint64_t at = 0;
  while (at < member.size) {
    if (stop.stop_requested()) throw ImageError(ImageFailure::cancelled, "cancelled");
    // By offset: one member may be the layer of several images.
    const auto count =
        os::check(::pread(member.file.get(), chunk.data(), chunk.size(), static_cast<off_t>(at)),
                  "pread", "spooled layer");
    if (count == 0) throw os::Error(EIO, "pread", "spooled layer");
    sink.write(std::span(chunk).first(static_cast<std::size_t>(count)));
    at += static_cast<std::uint64_t>(count);
  }
}

}  // namespace daiv::images
