#include "agent/fs_directory.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace daiv::agent {
namespace {

EntryKind kind_of_mode(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::file;
  if (S_ISDIR(mode)) return EntryKind::directory;
  if (S_ISLNK(mode)) return EntryKind::link;
  return EntryKind::other;
}

EntryKind kind_of(const os::UniqueFd& directory, const dirent64& entry) {
  if (entry.d_type != DT_UNKNOWN) return kind_of_mode(static_cast<mode_t>(DTTOIF(entry.d_type)));
  struct stat status{};
  if (::fstatat(directory.get(), entry.d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return EntryKind::other;
  }
  return kind_of_mode(status.st_mode);
}

}  // namespace

OrErrno<std::vector<DirectoryEntry>> list_directory(const os::UniqueFd& directory) {
  std::vector<DirectoryEntry> entries;
  alignas(dirent64) std::array<char, 32768> buffer;  // NOLINT: filled by the kernel
  for (;;) {
    const ssize_t size = ::getdents64(directory.get(), buffer.data(), buffer.size());
    if (size < 0) return std::unexpected(errno);
    if (size == 0) break;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        entries.push_back({std::string(name), kind_of(directory, *entry)});
      }
    }
  }
  std::ranges::sort(entries, {}, &DirectoryEntry::name);
  return entries;
}

std::string listing_prefix(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(path) + '/';
}

}  // namespace daiv::agent
