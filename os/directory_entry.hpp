#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/unique_fd.hpp"

// Entries of a directory by its descriptor and their one-component name: made, seen, described and
// removed without following a symlink in the last place (mkdirat(2), mknodat(2), linkat(2),
// symlinkat(2), unlinkat(2), utimensat(2)). Where an outcome is ordinary it is returned, the rest
// throws os::Error with the name.
namespace daiv::os {

enum class Made { yes, exists };  // EEXIST

Made make_directory_at(const UniqueFd& directory, const std::string& name, mode_t mode);
Made make_symlink_at(const std::string& target, const UniqueFd& directory, const std::string& name);
Made make_node_at(const UniqueFd& directory, const std::string& name, mode_t mode, dev_t device);

// linkat(2) without AT_SYMLINK_FOLLOW: of a symlink, it links the symlink itself.
enum class Linked { yes, exists, no_target };  // EEXIST, ENOENT
Linked make_link_at(const UniqueFd& old_directory, const std::string& old_name,
                    const UniqueFd& directory, const std::string& name);

// A new file, opened for writing (O_CREAT, O_EXCL, O_NOFOLLOW); empty where the name is taken.
std::optional<UniqueFd> create_file_at(const UniqueFd& directory, const std::string& name,
                                       mode_t mode);

// Opens `path` below `root` without any symlink on the way, as open_beneath() does, and within one
// mount (RESOLVE_NO_XDEV). What keeps it from being opened is an outcome here: its errno.
std::expected<UniqueFd, int> try_open_beneath(const UniqueFd& root, const std::string& path,
                                              int flags);

// Empty where there is no such entry.
std::optional<struct stat> stat_at(const UniqueFd& directory, const std::string& name);
std::string read_link_at(const UniqueFd& directory, const std::string& name);

// Names in a directory without "." and ".."; `directory` must be open for reading.
std::vector<std::string> list_directory(const UniqueFd& directory);

// Removes the entry and, if it is a directory, all below it. Nothing there is no error.
void remove_tree_at(const UniqueFd& directory, const std::string& name);

void set_owner(const UniqueFd& file, uid_t uid, gid_t gid);
void set_owner_at(const UniqueFd& directory, const std::string& name, uid_t uid, gid_t gid);
void set_mode(const UniqueFd& file, mode_t mode);
void set_modified(const UniqueFd& file, timespec time);
void set_modified_at(const UniqueFd& directory, const std::string& name, timespec time);
void set_xattr(const UniqueFd& file, const std::string& name, std::string_view value);
// flistxattr(2), fgetxattr(2); none where the file system has no attributes.
std::vector<std::string> list_xattrs(const UniqueFd& file);
std::string get_xattr(const UniqueFd& file, const std::string& name);

// pwrite(2) until all is written.
void write_at(const UniqueFd& file, std::span<const std::byte> bytes, std::uint64_t offset);
void set_length(const UniqueFd& file, std::uint64_t length);

}  // namespace daiv::os
