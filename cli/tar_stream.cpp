#include "cli/tar_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "os/error.hpp"
#include "os/io.hpp"

namespace fs = std::filesystem;

namespace daiv::cli {
namespace {

constexpr std::size_t block_bytes = 512;
constexpr std::size_t copy_bytes = 1U << 20;

// Fields of a ustar header (pax(1), "ustar Interchange Format").
struct Field {
  std::size_t offset;
  std::size_t size;
};
constexpr Field name_field{0, 100};
constexpr Field mode_field{100, 8};
constexpr Field uid_field{108, 8};
constexpr Field gid_field{116, 8};
constexpr Field size_field{124, 12};
constexpr Field mtime_field{136, 12};
constexpr Field checksum_field{148, 8};
constexpr std::size_t type_offset = 156;
constexpr Field magic_field{257, 8};

using Header = std::array<char, block_bytes>;

void put(Header& header, Field field, std::string_view text) {
  std::memcpy(header.data() + field.offset, text.data(), std::min(field.size, text.size()));
}

void put_octal(Header& header, Field field, std::uint64_t value) {
  put(header, field, fmt::format("{:0{}o}", value, field.size - 1));
}

Header make_header(std::string_view name, char type, std::uint64_t size) {
  Header header{};
  put(header, name_field, name);
  put_octal(header, mode_field, 0644);
  put_octal(header, uid_field, 0);
  put_octal(header, gid_field, 0);
  put_octal(header, size_field, size);
  put_octal(header, mtime_field, 0);
  header[type_offset] = type;
  put(header, magic_field, std::string_view("ustar\00000", 8));
  put(header, checksum_field, "        ");  // counted as blanks
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(header, checksum_field, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

std::string_view view(const Header& header) { return {header.data(), header.size()}; }

void pad(const os::UniqueFd& output, std::uint64_t written) {
  const std::size_t rest = written % block_bytes;
  if (rest != 0) os::write_full(output, std::string(block_bytes - rest, '\0'));
}

// "length key=value\n", where the length counts itself.
std::string make_pax_record(std::string_view key, std::string_view value) {
  const std::size_t fixed = key.size() + value.size() + 3;
  std::size_t length = fixed + 1;
  while (fixed + std::to_string(length).size() != length)
    length = fixed + std::to_string(length).size();
  return fmt::format("{} {}={}\n", length, key, value);
}

// Every file gets its name and size by a pax header, so that neither has a limit.
void write_file(const os::UniqueFd& output, const fs::path& path, const std::string& name) {
  const os::UniqueFd file = os::open_file(path, O_RDONLY | O_NOFOLLOW);
  struct stat status{};
  os::check(::fstat(file.get(), &status), "fstat", path.string());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const std::string records =
      make_pax_record("path", name) + make_pax_record("size", std::to_string(size));
  os::write_full(output, view(make_header("pax", 'x', records.size())));
  os::write_full(output, records);
  pad(output, records.size());
  constexpr std::uint64_t max_ustar_size = (1ULL << 33) - 1;
  os::write_full(output, view(make_header(name.substr(0, name_field.size), '0',
                                          std::min(size, max_ustar_size))));
  std::vector<std::byte> chunk(copy_bytes);
  std::uint64_t copied = 0;
  while (copied < size) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), size - copied));
    const std::size_t count = os::read_some(file, std::span(chunk).first(wanted));
    if (count == 0) throw os::Error(EIO, "read: the file shrank", path.string());
    os::write_full(output, {reinterpret_cast<const char*>(chunk.data()), count});
    copied += count;
  }
  pad(output, size);
}

}  // namespace

void write_tar(const std::string& path, const os::UniqueFd& output) {
  const fs::path root = path;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  // What says which blobs are meant comes before the blobs.
  std::ranges::stable_partition(files,
                                [&](const fs::path& file) { return file.parent_path() == root; });
  for (const auto& file : files) write_file(output, file, file.lexically_relative(root).string());
  os::write_full(output, std::string(2 * block_bytes, '\0'));
}

}  // namespace daiv::cli
