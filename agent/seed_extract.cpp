#include "agent/seed_extract.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <memory>

#include "agent/seed_policy.hpp"
#include "os/error.hpp"

// A static program has no locale files, and libarchive turns the UTF-8 of pax headers into the
// locale's charset: in "C" every other character would be a question mark. The linker (--wrap)
// sends libarchive's question here.
extern "C" {
char* __real_nl_langinfo(nl_item item);
char* __wrap_nl_langinfo(nl_item item);
char* __wrap_nl_langinfo(nl_item item) {
  static char utf8[] = "UTF-8";
  return item == CODESET ? utf8 : __real_nl_langinfo(item);
}
}

namespace daiv::agent {
namespace {

using Archive = std::unique_ptr<archive, int (*)(archive*)>;

[[noreturn]] void refuse(std::string_view reason) {
  throw SeedError(SeedOutcome::invalid_archive,
                  fmt::format("Invalid or truncated archive: {}", reason));
}

// The bytes that libarchive asks for, and where the last one that is not zero lies: padding may
// follow an archive, anything else may not.
class Feed {
public:
  explicit Feed(const ByteSource& source) : source_(source) {}

  la_ssize_t next(const void** block) noexcept {
    try {
      const auto bytes = source_();
      note(bytes);
      *block = bytes.data();
      return static_cast<la_ssize_t>(bytes.size());
    } catch (...) {  // no exception crosses libarchive: it goes on after the call, in rethrow()
      failure_ = std::current_exception();
      return -1;
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  // Reads what the decoder has not asked for.
  void drain() {
    while (true) {
      const auto bytes = source_();
      if (bytes.empty()) return;
      note(bytes);
    }
  }

  [[nodiscard]] std::int64_t end_of_content() const noexcept { return end_of_content_; }

private:
  void note(std::string_view bytes) noexcept {
    const auto last = bytes.find_last_not_of('\0');
    if (last != std::string_view::npos)
      end_of_content_ = position_ + static_cast<std::int64_t>(last) + 1;
    position_ += static_cast<std::int64_t>(bytes.size());
  }

  const ByteSource& source_;
  std::exception_ptr failure_;
  std::int64_t position_ = 0;
  std::int64_t end_of_content_ = 0;
};

la_ssize_t read_from_feed(archive*, void* feed, const void** block) {
  return static_cast<Feed*>(feed)->next(block);
}

class Extraction {
public:
  Extraction(const ByteSource& source, SeedTree& tree, SeedBudget& budget)
      : feed_(source),
        tree_(tree),
        budget_(budget),
        archive_(::archive_read_new(), ::archive_read_free) {
    if (!archive_) throw std::bad_alloc();
  }

  LeftOut run() {
    open();
    while (archive_entry* entry = next()) {
      count(entry);
      take(entry);
    }
    feed_.drain();
    if (feed_.end_of_content() > ::archive_filter_bytes(archive_.get(), -1))
      refuse("trailing data");
    tree_.finish();
    return std::move(left_out_);
  }

private:
  void open() {
    archive* const reader = archive_.get();
    ::archive_read_support_filter_gzip(reader);
    ::archive_read_support_filter_bzip2(reader);
    ::archive_read_support_filter_xz(reader);
    ::archive_read_support_filter_zstd(reader);
    ::archive_read_support_format_tar(reader);
    // Without this the reader stops at the end mark and never sees what follows it: members of a
    // further tar are extracted, what is no tar refuses the archive.
    ::archive_read_set_option(reader, "tar", "read_concatenated_archives", "1");
    check(::archive_read_open(reader, &feed_, nullptr, read_from_feed, nullptr));
  }

  // Whatever is not entirely right refuses the archive, as half a tree is worse than none.
  void check(int result) {
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return;
    feed_.rethrow();
    const char* const text = ::archive_error_string(archive_.get());
    if (::archive_errno(archive_.get()) == ENOMEM)
      refuse("too much memory is needed to decompress it");
    refuse(text != nullptr ? text : "unreadable");
  }

  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int result = ::archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) return nullptr;
    check(result);
    return entry;
  }

  void count(archive_entry* entry) {
    if (budget_.entries-- == 0)
      throw SeedError(SeedOutcome::too_large, "the archives have too many members");
    const auto size =
        static_cast<std::uint64_t>(std::max<la_int64_t>(0, ::archive_entry_size(entry)));
    if (size > budget_.bytes)
      throw SeedError(SeedOutcome::too_large, "the archives are too large when unpacked");
    budget_.bytes -= size;
  }

  void leave_out(std::string_view reason) { ++left_out_[std::string(reason)]; }

  void take(archive_entry* entry) {
    const char* const raw_name = ::archive_entry_pathname(entry);
    if (raw_name == nullptr) refuse("a member's name is not readable");
    const auto name = tidy_name(raw_name);
    if (const auto text = refusal(name.verdict, raw_name); !text.empty())
      throw SeedError(SeedOutcome::invalid_archive, text);
    if (name.verdict == NameVerdict::root) return;
    if (name.verdict == NameVerdict::too_long) return leave_out("too long names");
    if (::archive_entry_hardlink(entry) != nullptr) return leave_out("hard links");
    switch (::archive_entry_filetype(entry)) {
      case AE_IFREG:
        return take_file(entry, name.path);
      case AE_IFDIR:
        if (!tree_.make_directory(name.path, directory_mode(::archive_entry_perm(entry)),
                                  modified(entry)))
          leave_out("members that can't be made");
        return;
      case AE_IFLNK:
        return take_link(entry, name.path);
      default:
        return leave_out("devices and FIFOs");
    }
  }

  static std::optional<timespec> modified(archive_entry* entry) {
    if (::archive_entry_mtime_is_set(entry) == 0) return std::nullopt;
    return timespec{::archive_entry_mtime(entry), ::archive_entry_mtime_nsec(entry)};
  }

  void take_link(archive_entry* entry, const std::string& path) {
    const char* const target = ::archive_entry_symlink(entry);
    if (target == nullptr || !link_stays_inside(path, target))
      return leave_out("links that leave the tree");
    if (!tree_.make_link(path, target, modified(entry))) leave_out("members that can't be made");
  }

  void take_file(archive_entry* entry, const std::string& path) {
    const auto file = tree_.create_file(path, file_mode(::archive_entry_perm(entry)));
    if (!file) return leave_out("members that can't be made");
    const la_int64_t end = write_blocks(*file, path);
    const la_int64_t size = ::archive_entry_size(entry);
    if (end < size) os::check(::ftruncate(file->get(), size), "ftruncate", path);
    if (const auto time = modified(entry)) {
      const std::array<timespec, 2> times = {timespec{0, UTIME_OMIT}, *time};
      ::futimens(file->get(), times.data());
    }
  }

  // Holes stay holes. Returns the end of the last block.
  la_int64_t write_blocks(const os::UniqueFd& file, const std::string& path) {
    la_int64_t end = 0;
    for (;;) {
      const void* block = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      const int result = ::archive_read_data_block(archive_.get(), &block, &size, &offset);
      if (result == ARCHIVE_EOF) return end;
      check(result);
      for (std::size_t done = 0; done < size;)
        done += static_cast<std::size_t>(
            os::check(os::retry_eintr([&] {
                        return ::pwrite(file.get(), static_cast<const char*>(block) + done,
                                        size - done, offset + static_cast<la_int64_t>(done));
                      }),
                      "pwrite", path));
      end = offset + static_cast<la_int64_t>(size);
    }
  }

  Feed feed_;
  SeedTree& tree_;
  SeedBudget& budget_;
  Archive archive_;
  LeftOut left_out_;
};

}  // namespace

std::string summarize(const LeftOut& left_out) {
  std::string text;
  for (const auto& [reason, count] : left_out)
    text += fmt::format("{}{} {}", text.empty() ? "left out: " : ", ", count, reason);
  return text;
}

LeftOut extract_archive(const ByteSource& source, SeedTree& tree, SeedBudget& budget) {
  return Extraction(source, tree, budget).run();
}

}  // namespace daiv::agent
