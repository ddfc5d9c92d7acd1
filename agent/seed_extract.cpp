#include "agent/seed_extract.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>

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

constexpr std::int64_t tar_block_bytes = 512;
constexpr std::int64_t end_mark_bytes = 2 * tar_block_bytes;  // pax(1), ustar Interchange Format

class Extraction {
public:
  Extraction(const ByteSource& source, SeedTree& tree, SeedBudget& budget)
      : unpacker_(source), reader_([this] { return next_bytes(); }), tree_(tree), budget_(budget) {}

  LeftOut run() {
    open();
    while (archive_entry* entry = next()) {
      count(entry);
      take(entry);
    }
    unpacker_.finish();
    tree_.finish();
    return std::move(left_out_);
  }

private:
  void open() {
    ::archive_read_support_format_tar(reader_.get());
    // Without this the reader stops at the end mark and never sees what follows it: members of a
    // further tar are extracted, what is no tar refuses the archive.
    ::archive_read_set_option(reader_.get(), "tar", "read_concatenated_archives", "1");
    reader_.open();
  }

  std::string_view next_bytes() {
    const auto bytes = unpacker_.next();
    return bytes.empty() ? padding() : bytes;
  }

  // What is missing to a whole block where zeros follow the end mark: libarchive would take them
  // for a header that is cut. Bytes of a member are never made up.
  std::string_view padding() const {
    const std::int64_t partial = reader_.position() % tar_block_bytes;
    const std::int64_t end = reader_.end_of_content();
    const std::int64_t end_of_blocks =
        (end + tar_block_bytes - 1) / tar_block_bytes * tar_block_bytes;
    if (partial == 0 || in_member_) return {};
    if (reader_.position() - partial - end_of_blocks < end_mark_bytes) return {};
    static constexpr std::array<char, tar_block_bytes> zeros{};
    return {zeros.data(), static_cast<std::size_t>(tar_block_bytes - partial)};
  }

  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int result = ::archive_read_next_header(reader_.get(), &entry);
    if (result == ARCHIVE_EOF) return nullptr;
    reader_.check(result);
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
    if (raw_name == nullptr) refuse_archive("a member's name is not readable");
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
    in_member_ = true;
    const la_int64_t end = write_blocks(*file, path);
    in_member_ = false;
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
      const int result = ::archive_read_data_block(reader_.get(), &block, &size, &offset);
      if (result == ARCHIVE_EOF) return end;
      reader_.check(result);
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

  Unpacker unpacker_;
  ArchiveReader reader_;
  SeedTree& tree_;
  SeedBudget& budget_;
  bool in_member_ = false;  // its content is being read
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
